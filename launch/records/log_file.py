"""`log.txt` of a run: lines with the time. Imports nothing heavy, since the supervisor of `--restart` writes here."""

from __future__ import annotations

import time
from pathlib import Path


def append_to_log(path: Path, text: str) -> None:
    """Append lines to a log, each with the time.

    Raises:
        OSError: the file cannot be written.
    """
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(f"{stamp} {line}\n" for line in text.splitlines()))
