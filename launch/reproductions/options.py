"""Options of `laser reproduce`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from laser.config import Bounds


@dataclass(frozen=True)
class ReproduceOptions:
    """What of a figure is run, how large, and where."""

    dry_run: Annotated[bool, "print the commands and run none"] = False
    scale: Annotated[
        float,
        Bounds(above=0.0, most=1.0),
        "factor on env steps, the replay's capacity and its warm-up; the replay of --preset keeps its size",
    ] = 1.0
    small: Annotated[bool, "a small net, few games, small batches and short runs, as the figure's file says"] = False
    games: Annotated[int, Bounds(least=0), "train on the first so many games only; 0: all"] = 0
    env: Annotated[str, "train on this environment instead of the figure's games"] = ""
    preset: Annotated[
        str, "train with this preset and its network, not the figure's; arms that have a preset of their own keep it"
    ] = ""
    arms: Annotated[str, "only arms whose labels are or hold one of these texts, with semicolons between them"] = ""
    seeds: Annotated[int, Bounds(least=0, most=1000), "runs per arm and game; 0: as many as in the paper"] = 0
    jobs: Annotated[int, Bounds(least=1, most=1024), "runs at the same time"] = 1
    ray_address: Annotated[str, "HOST:PORT of a Ray cluster's head, where every run takes place"] = ""
    out: Annotated[Path | None, "directory of runs and results; default: one below runs/reproduce/"] = None
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the results as one JSON object on the last line of standard output"] = False
