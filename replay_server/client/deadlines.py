"""Deadlines for what others are to answer, all kept by one thread."""

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
    """Fails what is not answered in time; an answer that comes later is dropped.

    Any thread may call. The thread begins with the first answer that has to be waited for, and ends with `close`, which
    lets what is still waited for come or not.
    """

    def __init__(self) -> None:
        self._waiting: dict[Future[Any], tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def within(self, timeout_s: float, future: Future[T], who: str) -> Future[T]:
        """Return a future of what becomes of `future`, which fails with a `PortClosedError` naming `who` in time."""
        if future.done():
            return future
        answer: Future[T] = Future()
        with self._lock:
            self._waiting[answer] = (time.monotonic() + timeout_s, f"{who} has not answered for {timeout_s:g} s")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
        future.add_done_callback(partial(self._arrived, answer))
        return answer

    def close(self) -> None:
        """End the thread."""
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
