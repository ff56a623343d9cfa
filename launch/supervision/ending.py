"""Endings: the ways in which the training of a member ends."""

from __future__ import annotations

from enum import StrEnum

from launch.settings.train_config import TrainConfig


class Ending(StrEnum):
    """The way in which a member's training ended. Results, logs and `--json` contain these values."""

    NONE = ""
    """The training continues; the only value that is false."""
    STEPS = "steps"
    """All env steps are done."""
    SOLVED = "solved"
    """The mean return reached `stop_at_return`."""
    STOPPED = "stopped"
    """A signal asked the run to stop."""
    FAILED = "failed"
    """An error ended the training."""


def why_ended(ending: Ending, config: TrainConfig) -> str:
    """Return why a run ended without an error, as a clause."""
    return {
        Ending.STEPS: "all env steps are done",
        Ending.SOLVED: f"the mean return reached {config.stop_at_return:g}",
        Ending.STOPPED: "a callback stopped it",
    }[ending]
