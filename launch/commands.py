"""Commands that messages tell the user to run; each can be copied whole."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from launch.start_directory import located, working_directory


def program_path(name: str) -> str:
    """Return the command for a program of this Python environment: its name if the shell finds it, else its path."""
    path = Path(sys.executable).parent / name
    if shutil.which(name) or not path.exists():
        return name
    here = working_directory()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def path_argument(path: Path) -> str:
    """Return a path as an argument in a command; one that begins with a dash would be taken for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def resume_command(path: Path, preset: str = "") -> str:
    """Return the command that continues a run or a sweep.

    Args:
        path: its directory; that of a sweep's member stands for the sweep, since only this continues its members.
        preset: that it was begun with; "" leaves it out.
    """
    if path.parent.name == "members":
        path = path.parents[1]
    command = "sweep" if located(path / "members").is_dir() else "train"
    words = shlex.join([command, *([preset] if preset else []), "--resume", "--run-dir"])
    return f"{program_path('laser')} {words} {path_argument(path)}"
