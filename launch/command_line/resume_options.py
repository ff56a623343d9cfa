"""Options of `laser train` and `laser sweep` that are not settings of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from launch.records.trust import TrustFlag


@dataclass(frozen=True)
class ResumeOptions:
    """Options of `laser train` and `laser sweep` that are no setting of a run."""

    trust: TrustFlag = False
    restart: Annotated[
        bool, "start the run again from its newest checkpoint when its process is killed or Ray fails"
    ] = False
