"""One logged episode, and the interface of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from laser.specs import EnvironmentSpec


@dataclass(frozen=True)
class LoggedEpisode:
    """A whole episode of L env steps.

    Args:
        observations: by name, [L+1, ...], in the form of the environment's specs; the last one is the final one.
        actions: [L, ...], on the scale of policies.
        rewards: float32 [L].
        terminated: whether a terminal state ended it; otherwise it was truncated.
        mu: statistics of the behaviour by name, [L, ...], as far as they were logged.
        versions: int64 [L], the parameter version that acted; None if unknown.
        member: the member of a sweep that acted.
    """

    observations: Mapping[str, np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    mu: Mapping[str, np.ndarray] = field(default_factory=dict)
    versions: np.ndarray | None = None
    member: int = 0

    def __len__(self) -> int:
        """Return L, the number of env steps."""
        return len(self.rewards)


class Log(Protocol):
    """Episodes by number, read when they are asked for."""

    environment: EnvironmentSpec
    """The environment that they were played in."""

    def __len__(self) -> int:
        """Return the number of episodes."""

    def episode(self, number: int) -> LoggedEpisode:
        """Return an episode.

        Raises:
            LogError: it is damaged.
        """


class LogError(ValueError):
    """A log that cannot be used; the message names what is wrong and what to do."""
