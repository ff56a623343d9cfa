"""How far an evaluation is, for whoever waits for it."""

from __future__ import annotations

import time

import numpy as np

from laser.environments.base import Transition, VectorEnvironment
from launch.recording.progress import duration


class Playing:
    """Counts the episodes of an evaluation (see `actors.evaluator.Evaluator`) while they end.

    Each environment plays the same number of them; what it plays on while it waits for others does not count. `look` is
    called from one thread; all else may be read from any.

    Args:
        num_episodes: to be played; rounded up to the same number on each environment.
        num_envs: environments side by side.
    """

    def __init__(self, num_episodes: int, num_envs: int):
        self._of_each = -(-num_episodes // num_envs)
        self._ended = np.zeros(num_envs, np.int64)
        self._begun = time.monotonic()
        self.num_steps = 0

    def look(self, environment: VectorEnvironment, part: Transition) -> None:
        """Take a step of some environments into account."""
        self.num_steps += int((~part.ignored).sum())
        self._ended[part.environments[part.terminated | part.truncated]] += 1

    @property
    def num_ended(self) -> int:
        """Episodes that have ended and count."""
        return int(np.minimum(self._ended, self._of_each).sum())

    @property
    def share(self) -> float:
        """Share of the episodes that have ended, in [0, 1]."""
        return self.num_ended / (self._of_each * len(self._ended))

    def words(self, title: str) -> str:
        """Return one line: episodes, steps, rate, and the time left by the episodes so far."""
        seconds = max(1e-9, time.monotonic() - self._begun)
        parts = [f"{self.num_ended} of {self._of_each * len(self._ended)} episodes", f"{self.num_steps:,} env steps"]
        parts.append(f"{self.num_steps / seconds:,.0f} env steps/s")
        if 0 < self.share < 1:
            parts.append(f"{duration(seconds * (1 / self.share - 1))} left")
        return f"{title}: {' · '.join(parts)}"
