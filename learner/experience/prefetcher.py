"""Prefetching: batches are made ahead of time, in a thread beside the one that trains on them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from laser.torch_threads import set_torch_threads

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Keeps a few items ready, made in its own thread.

    Args:
        poll: makes the next item, or returns None if that is not possible within the given seconds.
        num_ready: number of items kept.
    """

    def __init__(self, poll: Callable[[float], T | None], num_ready: int):
        self._poll = poll
        self._ready: queue.Queue[T | BaseException] = queue.Queue(num_ready)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def next(self, timeout_s: float) -> T | None:
        """Return the next item, or None if it is not ready in time; raise the error that ended the thread, if any."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
            thread.start()
            self._thread = thread  # only now: one that the system refuses to start cannot be joined
        try:
            ready = self._ready.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(ready, BaseException):
            raise ready
        return ready

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        set_torch_threads(1)
        while not self._stop.is_set():
            ready: T | BaseException | None
            try:
                ready = self._poll(0.2)
            except Exception as error:  # noqa: BLE001 - handed to the training thread, which raises it
                ready = error
            while ready is not None and not self._stop.is_set():
                try:
                    self._ready.put(ready, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if isinstance(ready, BaseException):
                return
