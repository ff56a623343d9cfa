"""Directories whose entries outlast a power loss: a file is on the disk only if the name that leads to it is, too."""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Flush the names of a directory's files to the disk: those that were made, renamed or removed.

    Raises:
        OSError: the directory cannot be opened or flushed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and the parents that it lacks, and flush their names to the disk.

    Raises:
        OSError: a directory cannot be made or flushed.
    """
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
