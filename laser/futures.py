"""Futures: making, settling and combining them without a thread that waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# A future and its result or error. Collected under a lock and settled after its release: callbacks may take the lock.
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


def claim(future: Future[Any]) -> bool:
    """Claim a future, so that it can no longer be cancelled; return False if it is cancelled already."""
    return future.running() or future.set_running_or_notify_cancel()


def settle(settled: Iterable[Settlement]) -> None:
    """Give claimed futures their results or errors."""
    for future, result, error in settled:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def fail(future: Future[Any], error: BaseException) -> None:
    """Give a future an error, unless it is cancelled."""
    if claim(future):
        future.set_exception(error)


def give(
    future: Future[T], make: Callable[[], T], explain: Callable[[BaseException], BaseException] | None = None
) -> None:
    """Give a future the result of `make()`, or the error that it raises, unless the future is cancelled.

    Args:
        future: a future that only this call settles.
        make: called in this thread.
        explain: returns the error that the future gets in place of the raised one.
    """
    if not claim(future):
        return
    try:
        result = make()
    except BaseException as error:  # noqa: BLE001 - any error goes to the caller that waits
        future.set_exception(explain(error) if explain else error)
    else:
        future.set_result(result)


def forward(
    whole: Future[R],
    done: Future[T],
    convert: Callable[[T], R] | None = None,
    explain: Callable[[BaseException], BaseException] | None = None,
) -> None:
    """Give `whole` the result or the error of `done`, unless `whole` is cancelled.

    Args:
        whole: a future that only this call settles.
        done: has a result or an error.
        convert: turns the result into that of `whole`; an error that it raises becomes that of `whole`.
        explain: turns the error of `done` into that of `whole`.
    """
    if not claim(whole):
        return
    error = done.exception()
    if error is not None:
        whole.set_exception(explain(error) if explain else error)
        return
    result: Any = done.result()
    give(whole, lambda: result if convert is None else convert(result))


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
        if last:
            give(whole, lambda: merge([part.result() for part in parts]))

    for part in parts:
        part.add_done_callback(arrived)
    return whole
