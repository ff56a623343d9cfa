"""Futures: making, settling and combining them without a thread that waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# A future and what becomes of it. Collected under a lock and settled after it is released: callbacks may call back.
Settlement = tuple[Future[Any], Any, BaseException | None]


def done(result: T) -> Future[T]:
    """Return a future that has this result."""
    future: Future[T] = Future()
    future.set_result(result)
    return future


def failed(error: BaseException) -> Future[Any]:
    """Return a future that has failed."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def settle(settled: Iterable[Settlement]) -> None:
    """Give futures that have been claimed their results or errors."""
    for future, result, error in settled:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def forward(whole: Future[T], done: Future[T]) -> None:
    """Give `whole` what became of `done`."""
    if not whole.set_running_or_notify_cancel():
        return
    error = done.exception()
    if error is None:
        whole.set_result(done.result())
    else:
        whole.set_exception(error)


def combine(parts: Sequence[Future[T]], merge: Callable[[list[T]], R]) -> Future[R]:
    """Return a future of `merge(results)`, in the order of `parts`; the first error fails it.

    `merge` runs in the thread that delivers the last part.
    """
    whole: Future[R] = Future()
    lock = threading.Lock()
    num_left = len(parts)

    def arrived(_: Future[T]) -> None:
        nonlocal num_left
        with lock:
            num_left -= 1
            last = num_left == 0
        if not last or not whole.set_running_or_notify_cancel():
            return
        try:
            whole.set_result(merge([part.result() for part in parts]))
        except BaseException as error:  # noqa: BLE001 - whatever went wrong belongs to whoever waits
            whole.set_exception(error)

    for part in parts:
        part.add_done_callback(arrived)
    return whole
