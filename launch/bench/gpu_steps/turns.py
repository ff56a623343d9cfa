"""Turns of steps that run at the same time: they prepare together, and then measure one at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.02


class Turns:
    """One process's access to its turn, by file locks. The kernel frees the locks of a process that dies.

    Args:
        folder: of the locks, the same for all processes.
        patience_s: longest time that a ready process waits for others to become ready.
        give_up_s: time after which a process without a turn gives up.
    """

    def __init__(self, folder: Path, patience_s: float, give_up_s: float):
        now = time.monotonic()
        self._impatient_at, self._gives_up_at = now + patience_s, now + give_up_s
        self._starting = os.open(folder / "starting", os.O_RDWR | os.O_CREAT, 0o600)
        self._measuring = os.open(folder / "measuring", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._starting, fcntl.LOCK_SH)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Wait until no other process measures or prepares; yield False if patience ended before all were ready.

        Raises:
            TimeoutError: other processes took all the time.
        """
        fcntl.flock(self._starting, fcntl.LOCK_UN)
        if not _take(self._measuring, self._gives_up_at):
            raise TimeoutError("its turn did not come before its deadline")
        try:
            is_quiet = _take(self._starting, self._impatient_at)
            fcntl.flock(self._starting, fcntl.LOCK_UN)
            yield is_quiet
        finally:
            fcntl.flock(self._measuring, fcntl.LOCK_UN)


def _take(lock: int, until: float) -> bool:
    """Take a lock as soon as it is free; return whether that happened before `until`."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
