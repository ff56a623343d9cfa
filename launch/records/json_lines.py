"""Files that only grow, one line of JSON for each event, in time order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from launch.errors import NothingToResumeError
from launch.records.atomic_files import output_error, replace_file

T = TypeVar("T")


def read_lines(path: Path, read: Callable[[dict[str, Any]], T]) -> list[T]:
    """Return the events of a file, none if it is missing.

    A killed process or a full disk may leave the last line half written. Such a line is removed from the file.

    Args:
        path: the file.
        read: makes an event from the object of a line.

    Raises:
        NothingToResumeError: the file cannot be read.
    """
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8")
        whole, newline, half = text.rpartition("\n")
        events = [read(json.loads(line)) for line in whole.splitlines()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NothingToResumeError("run-dir", f"{path} cannot be read: {error}", "start a new sweep") from error
    if half:
        replace_file(path, (whole + newline).encode())
    return events


def append_line(path: Path, event: dict[str, Any]) -> None:
    """Append an event.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
    except OSError as error:
        raise output_error(path, error) from error


def replace_lines(path: Path, events: Iterable[dict[str, Any]]) -> None:
    """Replace all events of a file.

    Raises:
        OutputError: the file cannot be written.
    """
    replace_file(path, "".join(json.dumps(event) + "\n" for event in events).encode())
