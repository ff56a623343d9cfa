"""Environments that do not return: their error messages, and waiting for calls that detects them."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Protocol, TypeVar

from actors.heartbeat import CONSTRUCTION, ENVIRONMENT
from laser.environments.config import BEING_CONSTRUCTED
from laser.ports import PortTimeoutError
from launch.errors import LaunchError
from launch.runtimes.host import CLOSE_DEADLINE_S
from launch.settings.train_config import TrainConfig

T = TypeVar("T")

_CHECK_S = 1.0


class Watched(Protocol):
    """A worker that knows for how long it has been waiting."""

    def silent_s(self, waiting_for: str) -> float:
        """Return the seconds for which it has been waiting for `waiting_for`; 0 if it is not waiting for that."""


class HungEnvironmentError(LaunchError):
    """An environment did not return."""


def hung_in(worker: Watched, config: TrainConfig) -> str:
    """Return the call in which one of the worker's environments hangs, in words; "" if none hangs."""
    deadlines = {
        ENVIRONMENT: (config.environment.deadline_s, "a step or a reset"),
        CONSTRUCTION: (config.environment.construction_deadline_s, BEING_CONSTRUCTED),
    }
    for waiting_for, (deadline_s, what) in deadlines.items():
        if worker.silent_s(waiting_for) > deadline_s:
            return f"{what} for {deadline_s:g} s"
    return ""


def hung_error(config: TrainConfig, hung: str, num_times: int) -> HungEnvironmentError:
    """Return the error for an environment that hung `num_times` times; `hung` is the result of `hung_in`."""
    return HungEnvironmentError(
        "env",
        f"{config.env} did not return from {hung}" + (f", {num_times} times" if num_times > 1 else ""),
        "fix the environment, or raise environment.deadline-s",
    )


def hung_in_close(whose: str) -> str:
    """Return the complaint about an environment of a worker or a task whose `close()` did not return in time."""
    return f"an environment of {whose} did not return from close() for {CLOSE_DEADLINE_S:g} s, and is left behind"


def wait_unless_hung(future: Future[T], worker: Watched, config: TrainConfig, timeout_s: float, what: str) -> T:
    """Wait like `laser.ports.wait`, and detect a hung environment of the worker.

    Raises:
        HungEnvironmentError: an environment took longer than its deadline, see `hung_in`.
        PortTimeoutError: `timeout_s` passed.
    """
    wait_until_done(future, worker, config, timeout_s, what)
    return future.result()


def wait_until_done(
    future: Future[Any],
    worker: Watched,
    config: TrainConfig,
    timeout_s: float,
    what: str,
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Wait until the call has a result or an error, or until `should_stop`; raise the errors of `wait_unless_hung`.

    Returns:
        whether the call has a result or an error.
    """
    deadline = time.monotonic() + timeout_s
    while not _is_answered_within(future, _CHECK_S):
        if should_stop():
            return False
        if hung := hung_in(worker, config):
            raise hung_error(config, hung, 1)
        if time.monotonic() > deadline:
            raise PortTimeoutError(f"waited {timeout_s:g} s for {what}")
    return True


def _is_answered_within(future: Future[Any], timeout_s: float) -> bool:
    # `concurrent.futures.wait` takes several times as long, during which the worker waits for the interpreter's lock.
    try:
        future.exception(timeout_s)
    except FutureTimeoutError:
        return future.done()
    except CancelledError:
        return True
    return True
