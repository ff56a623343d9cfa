"""The command that continues a run or sweep from its last checkpoint."""

from __future__ import annotations

import shlex
from pathlib import Path

from launch.records.run_directory import RunDirectory


def continue_command(path: Path, preset: str, *, is_member: bool = False) -> str:
    """Return the whole command, or "" if there is no checkpoint to continue from.

    Args:
        path: directory of the run.
        preset: that the run was begun with, or "".
        is_member: the run is a member of a sweep, which only its sweep continues.
    """
    if not RunDirectory(path, resumed=True).has_checkpoint:
        return ""
    whole = path.parents[1] if is_member else path  # SWEEP/members/NUMBER
    command = "sweep" if is_member else "train"
    return shlex.join(["laser", command, *([preset] if preset else []), "--resume", "--run-dir", str(whole)])
