"""Environments that do not return: what is said of them, and waiting that notices them."""

from __future__ import annotations

import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Protocol, TypeVar

from laser.ports import PortTimeoutError
from launch.config import TrainConfig
from launch.errors import LaunchError

T = TypeVar("T")

_CHECK_S = 1.0


class Watched(Protocol):
    """What says for how long it has been waiting."""

    def silent_s(self, waiting_for: str) -> float:
        """Return for how many seconds it has been waiting for `waiting_for`; 0 if it is not."""


class HungEnvironmentError(LaunchError):
    """An environment did not return."""


def hung_error(config: TrainConfig, num_times: int) -> HungEnvironmentError:
    """Return the error that says that an environment hung so many times."""
    return HungEnvironmentError(
        "env",
        f"{config.env} did not return from a step or a reset for {config.environment.deadline_s:g} s"
        + (f", {num_times} times" if num_times > 1 else ""),
        "mend the environment, or raise environment.deadline-s",
    )


def wait_unless_hung(future: Future[T], worker: Watched, config: TrainConfig, timeout_s: float, what: str) -> T:
    """Wait like `laser.ports.wait`, and notice an environment of the worker's that does not return.

    Raises:
        HungEnvironmentError: it took longer than `environment.deadline-s`.
        PortTimeoutError: the deadline passed.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return future.result(timeout=_CHECK_S)
        except FutureTimeoutError:
            if future.done():  # the call itself timed out
                raise
        if worker.silent_s("environment") > config.environment.deadline_s:
            raise hung_error(config, 1)
        if time.monotonic() > deadline:
            raise PortTimeoutError(f"waited {timeout_s:g} s for {what}")
