"""Options of `laser report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from laser.config import Bounds
from launch.records.trust import TrustFlag


@dataclass(frozen=True)
class ReportOptions:
    """Options of `laser report`."""

    out: Annotated[Path | None, "directory of the page and its pictures; none: report/ in the run's directory"] = None
    episodes: Annotated[int, Bounds(least=0), "evaluation episodes to play with a run's agent; 0: none"] = 0
    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False
