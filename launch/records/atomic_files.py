"""Files of a run that are replaced as a whole, and the error of those that cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

from launch.errors import OutputError
from launch.limits import MORE_FILES, explain_limit


def output_error(path: Path, error: OSError) -> OutputError:
    """Return the error that ends a run because `path` could not be read or written."""
    remedy = MORE_FILES if explain_limit(error) else "free space or repair the disk"
    return OutputError("run-dir", f"{path}: {error.strerror or error}", f"{remedy}, then continue with --resume")


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: no reader sees half of it, and a crash leaves the old file.

    Raises:
        OutputError: the file cannot be written.
    """
    beside = path.with_name(f"{path.name}.writing")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise output_error(path, error) from error
