"""The options of the commands that need no preset; they are configs, so their flags work like those of `train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds


@dataclass(frozen=True)
class EvalOptions:
    """Options of `laser eval`."""

    episodes: Annotated[int, Bounds(least=1), "episodes to play"] = 20
    checkpoint: Annotated[Literal["newest", "best"], "which checkpoint of the run plays"] = "newest"
    greedy: Annotated[bool, "take the most likely action instead of a sample"] = False
    num_envs: Annotated[int, Bounds(least=1, most=4096), "environments side by side"] = 4
    seed: Annotated[int, Bounds(least=0, most=2**31 - 1), "seed of the environments and of the policy"] = 0
    device: Annotated[str, "where the policy computes: cpu, cuda or cuda:N"] = "cpu"
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False
