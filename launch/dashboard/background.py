"""Reading in the background: what a page would wait for too long is read by a thread, and the page shows it later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Does one thing for items, one after another, in a thread that ends when nothing is left. For any thread.

    Args:
        work: called with each item; what it raises ends the thread, and is shown as an error of a thread.
    """

    def __init__(self, work: Callable[[T], object]):
        self._work = work
        self._lock = threading.Lock()
        self._waiting: dict[str, T] = {}
        self._thread: threading.Thread | None = None

    def ask(self, name: str, item: T) -> None:
        """Add an item, unless one of this name is waiting already."""
        with self._lock:
            self._waiting.setdefault(name, item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dashboard-reader", daemon=True)
                self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Wait until nothing is left, for tests."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while True:
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        return
                    name = next(iter(self._waiting))
                    item = self._waiting[name]
                self._work(item)
                with self._lock:
                    self._waiting.pop(name, None)
        finally:
            with self._lock:
                if self._thread is threading.current_thread():  # an error: the next item begins a new thread
                    self._thread = None
                    self._waiting.clear()
