"""Files that belong to a run's directory. A directory from somebody else may hold symbolic links to any file."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path


def is_own_file(path: Path, directory: Path) -> bool:
    """Return whether a path is a regular file of a directory; a pipe, which would never end, is none.

    Args:
        path: a path below `directory`.
        directory: of a run; it may itself be a link.
    """
    try:
        return path.is_file() and is_inside(path, directory)
    except OSError:  # another user's
        return False


def is_inside(path: Path, directory: Path) -> bool:
    """Return whether no symbolic link of a directory leads a path out of it.

    Args:
        path: a path below `directory`.
        directory: of a run or a sweep; it may itself be a link.
    """
    steps = accumulate(path.relative_to(directory).parts, Path.joinpath, initial=directory)
    next(steps)
    if not any(step.is_symlink() for step in steps):
        return True  # almost always, and much faster than to resolve both
    try:
        return path.resolve().is_relative_to(directory.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return False
