"""The processes and files of a Ray session: their end, also where the process that began it was killed.

`python -m launch.runtimes.ray_session SESSION` is the guard of a session. It waits for its standard input to end, which
it does when the process that began the session ends in any way, and then ends what is left. It does not import Ray.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

_REMOVE_DEADLINE_S = 5.0
_GUARD_DEADLINE_S = 5.0


class Guard:
    """A small process that ends a session if this process is killed.

    Args:
        session: directory of the session.
    """

    def __init__(self, session: Path):
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(session)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C in the terminal is not for it
        )

    def close(self) -> None:
        """End the guard, once nothing is left to be guarded."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=_GUARD_DEADLINE_S)


def end_processes(session: Path) -> None:
    """End what is left of a session: agents whose head or raylet was killed have nobody else to end them."""
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue  # the guard's own command names the session
        with suppress(psutil.Error):  # it has just ended, or is another user's
            if _belongs_to(session, process.cmdline(), process):
                process.kill()


def _belongs_to(session: Path, command: Sequence[str], process: psutil.Process) -> bool:
    if any(str(session) in word for word in command):
        return True
    # Ray's agents replace their command lines by a title; their logs lie in the session's directory.
    has_title = bool(command) and command[0].startswith("ray::")
    return has_title and any(Path(file.path).is_relative_to(session) for file in process.open_files())


def remove(session: Path) -> None:
    """Remove a session's directory: logs and sockets of ended processes, which Ray would never remove."""
    deadline = time.monotonic() + _REMOVE_DEADLINE_S
    while session.exists() and time.monotonic() < deadline:
        shutil.rmtree(session, ignore_errors=True)  # processes that are ending may still write their last lines
        if session.exists():
            time.sleep(0.05)
    latest = session.parent / "session_latest"
    if latest.is_symlink() and latest.readlink().name == session.name:
        latest.unlink(missing_ok=True)


def _guard(session: Path) -> None:
    sys.stdin.buffer.read()
    # A new process may be on its way while the raylet ends.
    for _ in range(3):
        end_processes(session)
        time.sleep(0.5)
    remove(session)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
