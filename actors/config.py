"""Settings of actors: overlap of emulation with inference, device, and limits of unacknowledged inserts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds


@dataclass(frozen=True)
class ActorConfig:
    """Settings of an actor."""

    env_groups: Annotated[
        int,
        Bounds(least=0, most=16),
        "groups of environments stepped in turn: one is emulated while the policy acts for another; "
        "0: two where the environment steps in the background, else one",
    ] = 0
    max_unacknowledged: Annotated[int, Bounds(least=1, most=64), "unacknowledged inserts an actor may have"] = 2
    device: Annotated[Literal["cpu", "cuda"], "device of the actors' policy"] = "cpu"
    compile: Annotated[
        Literal["auto", "on", "off"], "compile the policy; auto: for frames, where a compiler is found"
    ] = "auto"
    insert_deadline_s: Annotated[
        float,
        Bounds(above=0.0, most=1e6),
        "seconds an insert may wait for the replay before the run ends with an error",
    ] = 600.0
