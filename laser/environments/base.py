"""The interface of environments to actors: a vector of environments that is stepped by `send` and `recv`.

Autoreset is next-step everywhere: when an episode ends, `recv` returns its true final observation. The next action for
that environment is ignored, and `recv` returns the first observation of the next episode. For vector environments that
offer only same-step autoreset, the missing transition is inserted (`recv` returns two parts).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from laser.error_words import words_of
from laser.specs import EnvironmentSpec


class EnvironmentFailedError(RuntimeError):
    """An environment raised, hung, or returned something unusable; failures are counted by their `reason`.

    Args:
        reason: "raised", "hung", "not_finite", "wrong_shape" or "wrong_mask".
        message: the environment's own message.
    """

    others: StepOfOthers | None = None
    """The step of the other environments, where the vector can rebuild those that failed alone."""

    def __init__(self, reason: str, message: str):
        self.reason = reason
        super().__init__(message)

    def __reduce__(self) -> tuple[type[EnvironmentFailedError], tuple[str, str]]:
        """Pickle both arguments; an exception's default drops the first."""
        return type(self), (self.reason, str(self))


RAISED = (BaseException,)
"""Errors that an environment may raise by itself: asyncio's cancellation and a panic of Rust are no `Exception`."""


def failure_of(error: BaseException) -> EnvironmentFailedError:
    """Return the failure of an environment that raised `error`.

    Raises:
        KeyboardInterrupt: it may be the user's Ctrl-C, which Python raises in the main thread only.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
    if isinstance(error, EnvironmentFailedError):
        return error
    failure = EnvironmentFailedError("raised", words_of(error))
    failure.__cause__ = error
    return failure


@dataclass(frozen=True)
class Transition:
    """Results of the last actions, for some or all environments of a vector.

    Arrays belong to the receiver: a later step does not write into them.

    Args:
        environments: int64 [M], index of each row's environment in the vector.
        observations: by name, [M, ...]: vectors float32, categories int32, masks bool, frames uint8
            [M, stack, *frame_shape].
        rewards: float32 [M]; 0 where `ignored`.
        terminated: bool [M].
        truncated: bool [M].
        ignored: bool [M], True where the action was ignored and the observation begins an episode.
    """

    environments: np.ndarray
    observations: dict[str, np.ndarray]
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ignored: np.ndarray


@dataclass(frozen=True)
class StepOfOthers:
    """A step in which some environments of a vector failed and the others did not.

    Args:
        step: of all environments; a failed one's row is `ignored`, since its action had no result.
        failures: by environment.
        rebuild: (seed) -> the first observations of the failed environments, which it makes anew, by name, [M, ...], in
            the order of `failures`; raises `EnvironmentFailedError`, after which only `close` may be called.
    """

    step: Transition
    failures: Mapping[int, EnvironmentFailedError]
    rebuild: Callable[[int | None], dict[str, np.ndarray]]

    def complete(self, seed: int | None) -> Transition:
        """Rebuild the failed environments, and return the step with their first observations."""
        for name, value in self.rebuild(seed).items():
            self.step.observations[name][list(self.failures)] = value
        return self.step

    def error(self) -> EnvironmentFailedError:
        """Return the first failure, with this step."""
        failure = self.failures[min(self.failures)]
        failure.others = self
        return failure


class VectorEnvironment(Protocol):
    """`num_envs` environments of one spec. Used from one thread."""

    spec: EnvironmentSpec
    num_envs: int

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere; return observations by name, [num_envs, ...]."""

    def send(self, actions: np.ndarray) -> None:
        """Start one step with the policy's own actions [num_envs, ...]; continuous ones are clipped and mapped here."""

    def recv(self) -> list[Transition]:
        """Wait for that step; one part covers all environments, a second one those that were reset within the step.

        Raises:
            EnvironmentFailedError: an environment raised or returned something unusable. Only `close` may be called
                then, unless the error has `others` and these are completed.
        """

    def render(self) -> np.ndarray | None:
        """Return an RGB picture uint8 [height, width, 3] of environment 0, or None where it cannot be drawn."""

    def state_dict(self) -> dict[str, Any] | None:
        """Return all state for a bitwise identical continuation (JSON values and NumPy arrays), or None."""

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Restore a state from `state_dict`; return the current observations."""

    def close(self) -> None:
        """Release all resources."""
