"""The mean return of the newest training episodes, and the points of its curve over env steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from launch.recording.metric_table import RETURN

NUM_RETURNS = 20
"""Episodes in a mean."""
NUM_IN_A_SCORE = 100
"""Episodes in the mean that papers on Atari report."""


@dataclass(frozen=True)
class PastValues:
    """Values of a moment before the moment of writing."""

    env_steps: int
    frames: int
    values: Mapping[str, float]


class ReturnCurve:
    """Keeps the newest returns, and a point of their mean every `steps` env steps. Guarded by its owner's lock.

    Args:
        steps: env steps between two points; 0: there are no points.
    """

    def __init__(self, steps: int):
        self.steps = steps
        self.newest: deque[float] = deque(maxlen=NUM_IN_A_SCORE)
        self._averaged: deque[float] = deque(maxlen=NUM_RETURNS)  # reports come often: a slice of the others takes time
        self.mean = math.nan
        self._num_points = 0  # multiples of `steps` up to now
        self._points: list[PastValues] = []

    def add(self, returns: Iterable[float]) -> None:
        """Add the returns of finished episodes."""
        added = list(returns)
        self.newest.extend(added)
        self._averaged.extend(added)
        self.mean = math.fsum(self._averaged) / len(self._averaged) if self._averaged else math.nan

    @property
    def score(self) -> float:
        """The mean of the last 100 episodes, or of all if there are fewer; NaN before the first."""
        return math.fsum(self.newest) / len(self.newest) if self.newest else math.nan

    def extend(self, env_steps: int, frames: int) -> None:
        """Add a point if one is due at `env_steps`; none before the first episode."""
        if self.steps and env_steps // self.steps > self._num_points and not math.isnan(self.mean):
            self._num_points = env_steps // self.steps
            self._points.append(self._point(env_steps, frames))

    def finish(self, env_steps: int, frames: int) -> None:
        """Add the last point of a finished run."""
        if self.steps and not math.isnan(self.mean):
            self._points.append(self._point(env_steps, frames))

    def take(self) -> list[PastValues]:
        """Return the points since the last call."""
        points, self._points = self._points, []
        return points

    def load(self, newest: Iterable[float], env_steps: int) -> None:
        """Continue from the newest returns of a run at `env_steps`."""
        self.newest.clear()
        self._averaged.clear()
        self.add(newest)
        self._num_points = env_steps // self.steps if self.steps else 0

    def _point(self, env_steps: int, frames: int) -> PastValues:
        return PastValues(env_steps, frames, {RETURN: self.mean})
