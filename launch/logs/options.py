"""Options of `laser replay export`; nothing here imports torch, which help must not wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from launch.records.trust import TrustFlag


@dataclass(frozen=True)
class ReplayOptions:
    """Options of `laser replay export`."""

    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False
