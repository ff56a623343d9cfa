"""Names of checkpoints, such as `000007-step-200000`: which checkpoint of its run it is, and its env steps.

Without torch, since the supervisor of `--restart` reads them, too.
"""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"(\d{6,})-step-(\d+)")


def checkpoint_name(number: int, step: int) -> str:
    """Return the name of a checkpoint."""
    return f"{number:06d}-step-{step}"


def checkpoint_names(root: Path) -> list[str]:
    """Return the names of the finished checkpoints in a directory, valid or not, newest first; [] without directory.

    Raises:
        OSError: the directory cannot be read.
    """
    names = [path.name for path in root.iterdir() if _NAME.fullmatch(path.name)] if root.is_dir() else []
    return sorted(names, key=number_of, reverse=True)


def number_of(name: str) -> int:
    """Return which checkpoint of its run one is, by its name."""
    return _parts(name)[0]


def steps_of(name: str) -> int:
    """Return the env steps of a checkpoint, by its name."""
    return _parts(name)[1]


def _parts(name: str) -> tuple[int, int]:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match.group(1)), int(match.group(2))
