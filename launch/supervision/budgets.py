"""The failures that a member outlasts: of its processes, and of its environments."""

from __future__ import annotations

from laser.failure_budget import FailureBudget
from launch.recording.recorder import Recorder
from launch.settings.train_config import TrainConfig


class Budgets:
    """The budgets of a member's parts, each with its own. Used from one thread.

    Args:
        config: the member's config.
        recorder: the member's recorder, for the env steps at which a part fails.
    """

    def __init__(self, config: TrainConfig, recorder: Recorder):
        windows = (config.environment.restart_window_steps, config.failure_window)
        self._deaths = FailureBudget(config.max_failures, *windows)
        self._hung = FailureBudget(config.environment.max_restarts, *windows)
        self._recorder = recorder

    def may_die(self, part: str) -> bool:
        """Count the death of a process; return whether the member outlasts it."""
        return self._deaths.spend(part, self._env_steps)

    def may_hang(self, part: str) -> bool:
        """Count a hung environment of a worker; return whether the member outlasts it."""
        return self._hung.spend(part, self._env_steps)

    def num_hung(self, part: str) -> int:
        """Return how many hung environments of a worker count now."""
        return self._hung.num_counted(part, self._env_steps)

    @property
    def _env_steps(self) -> int:
        return self._recorder.position().env_steps
