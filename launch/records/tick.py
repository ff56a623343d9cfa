"""One moment of a run, at which metrics are recorded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tick:
    """One moment of a run: training seconds, unix time, and the run's counts of steps and frames."""

    seconds: float
    wall_time: float
    env_steps: int
    frames: int
    learner_steps: int
