"""Options of `laser push` and `laser pull`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from laser.config import Bounds
from launch.records.trust import TrustFlag


@dataclass(frozen=True)
class PushOptions:
    """Options of `laser push`."""

    episodes: Annotated[int, Bounds(least=1), "evaluation episodes to play for the card"] = 20
    checkpoint: Annotated[Literal["newest", "best"], "the run's newest checkpoint, or the one with the best score"] = (
        "best"
    )
    private: Annotated[bool, "make a new repository of the Hub visible to you alone"] = False
    video: Annotated[bool, "film an episode, where the environment can be drawn"] = True
    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False


@dataclass(frozen=True)
class PullOptions:
    """Options of `laser pull`."""

    run_dir: Annotated[Path | None, "directory of the run; default: runs/ and the repository's name"] = None
    revision: Annotated[str, "branch, tag or commit of the Hub's repository; default: the newest"] = ""
    quiet: Annotated[bool, "print nothing but errors"] = False
