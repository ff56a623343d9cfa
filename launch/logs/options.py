"""Options of `laser replay export` and `draw`; nothing here imports torch, which help must not wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from laser.config import Bounds
from launch.records.trust import TrustFlag


@dataclass(frozen=True)
class ReplayOptions:
    """Options of `laser replay export`."""

    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False


@dataclass(frozen=True)
class DrawOptions:
    """Options of `laser replay draw`."""

    items: Annotated[int, Bounds(least=1, most=1_000_000), "single steps, or sequences, to draw"] = 64
    uniform: Annotated[bool, "draw each stored step with the same probability instead of by the run's sampler"] = False
    seed: Annotated[int, Bounds(least=0, most=2**31 - 1), "seed of the draws"] = 0
    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False
