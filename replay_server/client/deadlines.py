"""Deadlines of pending calls, watched by one thread."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from laser.futures import fail, forward
from laser.ports import PortClosedError

T = TypeVar("T")

_LOOK_INTERVAL_S = 0.5


class Deadlines:
    """Fails calls that are not answered in time; a later answer is dropped.

    Any thread may call. The watching thread starts with the first call that is not answered at once, and ends with
    `close`; from then on, pending calls have no deadline.
    """

    def __init__(self) -> None:
        self._waiting: dict[Future[Any], tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def within(self, timeout_s: float, future: Future[T], who: str) -> Future[T]:
        """Return a future with the result of `future`, or a `PortClosedError` that names `who` after `timeout_s`."""
        if future.done():
            return future
        answer: Future[T] = Future()
        with self._lock:
            self._waiting[answer] = (time.monotonic() + timeout_s, f"{who} has not answered for {timeout_s:g} s")
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                thread.start()
                self._thread = thread  # only now: without a thread nothing would watch the next call
        future.add_done_callback(partial(self._arrived, answer))
        return answer

    def close(self) -> None:
        """End the watching thread."""
        self._closing.set()

    def _arrived(self, answer: Future[T], done: Future[T]) -> None:
        with self._lock:
            is_late = self._waiting.pop(answer, None) is None
        if not is_late:
            forward(answer, done)

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_INTERVAL_S):
            now = time.monotonic()
            with self._lock:
                late = [(answer, words) for answer, (deadline, words) in self._waiting.items() if deadline < now]
                for answer, _ in late:
                    del self._waiting[answer]
            for answer, words in late:
                fail(answer, PortClosedError(words))
