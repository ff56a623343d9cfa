"""Turns: steps that run at the same time get ready together, and then measure one at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_S = 0.02


class Turns:
    """A process's place among them. The kernel frees the file locks of a process that dies.

    Args:
        folder: for the locks, the same for all.
        patience_s: how long a process that is ready waits for others that are not.
        give_up_s: after how long one that has not had its turn gives up.
    """

    def __init__(self, folder: Path, patience_s: float, give_up_s: float):
        now = time.monotonic()
        self._impatient_at, self._gives_up_at = now + patience_s, now + give_up_s
        self._starting = os.open(folder / "starting", os.O_RDWR | os.O_CREAT, 0o600)
        self._measuring = os.open(folder / "measuring", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._starting, fcntl.LOCK_SH)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Wait until nobody else measures or gets ready; yields False where patience ended before all were ready.

        Raises:
            TimeoutError: others took all the time.
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
    """Take a lock as soon as nobody else holds it; return whether that came before `until`."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_S)
