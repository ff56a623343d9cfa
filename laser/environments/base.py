"""The one interface actors see: a vector of environments that always moves by `send` and `recv`.

Autoreset is next-step everywhere: when an episode ends, the observation that comes back is its true final one; the next
action for that environment is ignored and what comes back is the first observation of the next episode. Vector
environments that only offer same-step autoreset get the missing transition inserted (`recv` returns two parts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from laser.specs import EnvironmentSpec


class EnvironmentFailedError(RuntimeError):
    """An environment raised, hung, or returned something unusable; `reason` is the short name it is counted under.

    Args:
        reason: "raised", "hung", "not_finite" or "wrong_shape".
        message: the environment's own words.
    """

    def __init__(self, reason: str, message: str):
        self.reason = reason
        super().__init__(message)

    def __reduce__(self) -> tuple[type[EnvironmentFailedError], tuple[str, str]]:
        """Pickle both arguments; an exception's default forgets the first."""
        return type(self), (self.reason, str(self))


def words_of(error: BaseException) -> str:
    """Return an exception as the environment put it."""
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Transition:
    """What followed the last actions, for some or all environments of a vector.

    Arrays belong to the receiver: a later step does not write into them.

    Args:
        environments: int64 [M], which environments of the vector these rows are for.
        observations: by name, [M, ...]: vectors float32, categories int32, frames uint8 [M, stack, *frame_shape].
        rewards: float32 [M]; 0 where `ignored`.
        terminated: bool [M].
        truncated: bool [M].
        ignored: bool [M]: the action was ignored; `observations` begins an episode.
    """

    environments: np.ndarray
    observations: dict[str, np.ndarray]
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ignored: np.ndarray


class VectorEnvironment(Protocol):
    """`num_envs` environments of one spec. Used from one thread."""

    spec: EnvironmentSpec
    num_envs: int

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere; return observations by name, [num_envs, ...]."""

    def send(self, actions: np.ndarray) -> None:
        """Start one step with the policy's own actions [num_envs, ...]; continuous ones are clipped and mapped here."""

    def recv(self) -> list[Transition]:
        """Wait for that step; the first part covers all environments, a second one those reset within the same step.

        Raises:
            EnvironmentFailedError: the environment raised or returned something unusable.
        """

    def render(self) -> np.ndarray | None:
        """Return an RGB picture uint8 [height, width, 3] of environment 0, or None where it cannot be drawn."""

    def state_dict(self) -> dict[str, Any] | None:
        """Return everything needed to continue bitwise from here (JSON values and NumPy arrays), or None."""

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Restore what `state_dict` gave; return the current observations."""

    def close(self) -> None:
        """Release everything."""
