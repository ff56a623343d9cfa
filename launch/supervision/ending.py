"""Endings: how the training of a member comes to its end."""

from __future__ import annotations

from enum import StrEnum


class Ending(StrEnum):
    """How a member's training ended. The values are what results, logs and `--json` say."""

    NONE = ""
    """It goes on; the only value that is false."""
    STEPS = "steps"
    """All env steps were made."""
    SOLVED = "solved"
    """The return to stop at was reached."""
    STOPPED = "stopped"
    """A signal asked to stop."""
    FAILED = "failed"
    """An error ended it."""
