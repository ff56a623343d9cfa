"""Progress of an evaluation."""

from __future__ import annotations

import time

import numpy as np

from actors.evaluator import episodes_of_each
from laser.environments.base import Transition, VectorEnvironment
from launch.recording.progress import duration


class Playing:
    """Counts finished episodes during an evaluation of one task (see `actors.evaluator.Evaluator`).

    How many episodes an environment plays is fixed before. Episodes that it plays while it waits for other environments
    do not count. One thread calls `look`; any thread may read the rest.

    Args:
        num_episodes: of the evaluation.
        num_envs: number of environments.
    """

    def __init__(self, num_episodes: int, num_envs: int):
        self.num_episodes = num_episodes
        self._of_each = episodes_of_each(num_episodes, np.zeros(num_envs))
        self._ended = np.zeros(num_envs, np.int64)
        self._begun = time.monotonic()
        self.num_steps = 0

    def look(self, environment: VectorEnvironment, part: Transition) -> None:
        """Count one step of some environments."""
        self.num_steps += int((~part.ignored).sum())
        self._ended[part.environments[part.terminated | part.truncated]] += 1

    @property
    def num_ended(self) -> int:
        """Episodes that have ended and count."""
        return int(np.minimum(self._ended, self._of_each).sum())

    @property
    def share(self) -> float:
        """Share of the episodes that have ended, in [0, 1]."""
        return self.num_ended / self.num_episodes

    def words(self, title: str) -> str:
        """Return one line: episodes, steps, rate, and the time left, estimated from the episodes so far."""
        seconds = max(1e-9, time.monotonic() - self._begun)
        parts = [f"{self.num_ended} of {self.num_episodes} episodes", f"{self.num_steps:,} env steps"]
        parts.append(f"{self.num_steps / seconds:,.0f} env steps/s")
        if 0 < self.share < 1:
            parts.append(f"{duration(seconds * (1 / self.share - 1))} left")
        return f"{title}: {' · '.join(parts)}"
