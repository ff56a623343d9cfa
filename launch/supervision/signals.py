"""Ctrl-C, SIGTERM and SIGHUP: the first stops the run after a checkpoint, a repeated one ends the process at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from launch.errors import Interrupted, StoppedError
from launch.restart_link import is_connected

_SAME_S = 1.0
"""Seconds within which another signal belongs to the same stop: systemd sends SIGTERM with SIGHUP, for example, and a
supervisor passes on what also reached this process itself."""


class StopSignal:
    """A flag that a signal sets to stop the run. May be read from any thread.

    Schedules poll this plain flag: a handler that sets a `threading.Event` deadlocks if the signal comes while the main
    thread holds that event's own lock.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._came_at = 0.0
        self._seen: set[int] = set()

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 0 before any."""
        return 0 if self.number is None else 128 + self.number

    def error(self, saved: str) -> StoppedError | Interrupted:
        """Return the error that ends a stopped run; `saved` is the text about the saved state and how to continue."""
        if self.number in (None, signal.SIGINT):
            return Interrupted("stopped", "by Ctrl-C", saved)
        return StoppedError("stopped", self.by, saved, exit_code=self.exit_code)

    @property
    def by(self) -> str:
        """What stopped the run, as words; without a signal, a callback did."""
        if self.number is None:
            return "by a callback"
        return "by Ctrl-C" if self.number == signal.SIGINT else f"by {signal.Signals(self.number).name}"

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            if number == signal.SIGHUP:
                return  # a shell and the kernel may both send one as a terminal closes
            if self._belongs_to_the_first(number):
                return
            for child in multiprocessing.active_children():
                child.kill()  # an exit without clean-up would orphan them
            os._exit(128 + number)
        self.number, self._came_at = number, time.monotonic()
        self._seen.add(number)
        # A raw write: the handler may have interrupted a print, whose buffer is then locked.
        with suppress(OSError, ValueError):  # standard error may have no reader any more, or be closed
            if sys.__stderr__ is not None:  # otherwise its number may be that of another file
                os.write(sys.__stderr__.fileno(), b"\nstopping after a checkpoint; again to leave now\n")

    def _belongs_to_the_first(self, number: int) -> bool:
        """Return whether this signal was sent together with the first one, and not by somebody who will not wait."""
        is_repeated = number in self._seen
        self._seen.add(number)
        return (is_connected() or not is_repeated) and time.monotonic() - self._came_at < _SAME_S


@contextmanager
def handled_unless_ignored(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Handle those of these signals inside the block that were not ignored before it. Main thread only."""
    taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Handle SIGINT, SIGTERM and SIGHUP inside the block; do nothing outside the main thread, where Python allows none.

    What the process was started to ignore stays ignored: SIGHUP by `nohup`, SIGINT by `&` in a script.
    """
    stop = StopSignal()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    with handled_unless_ignored([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], stop._handle):
        yield stop
