"""Endings: the ways in which the training of a member ends."""

from __future__ import annotations

from enum import StrEnum


class Ending(StrEnum):
    """The way in which a member's training ended. Results, logs and `--json` contain these values."""

    NONE = ""
    """The training continues; the only value that is false."""
    STEPS = "steps"
    """All env steps are done."""
    SOLVED = "solved"
    """The mean return reached `stop_at_return`."""
    PRUNED = "pruned"
    """A sweep ended the member, whose setting fell behind others."""
    STOPPED = "stopped"
    """A signal asked the run to stop."""
    FAILED = "failed"
    """An error ended the training."""
