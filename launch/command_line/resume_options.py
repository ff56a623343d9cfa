"""Options of `laser train` and `laser sweep` that are not settings of the run."""

from __future__ import annotations

from dataclasses import dataclass

from launch.records.trust import TrustFlag


@dataclass(frozen=True)
class ResumeOptions:
    """Options of `laser train` and `laser sweep` that are no setting of a run."""

    trust: TrustFlag = False
