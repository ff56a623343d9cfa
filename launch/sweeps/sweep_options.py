"""Options of a sweep besides the config of its members, and what makes no sense together."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds, Problem
from laser.packages import find_missing
from launch.settings.values import Leaf, find_leaves
from launch.sweeps.halving import PrunerConfig
from launch.sweeps.population import PbtConfig
from launch.sweeps.scores import ScoreName
from launch.sweeps.value_lists import PRESET

MOST_MEMBERS = 4096

_OF_LEARNING = ("algorithm.", "network.", "replay.", "learner.", "unroll-length", PRESET)
"""Keys, or their beginnings, that a tuner may choose: environment, steps and scores stay comparable."""


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep besides the config of its members."""

    seeds: Annotated[
        int, Bounds(least=1, most=MOST_MEMBERS), "members per point of the grid, each with a seed of its own"
    ] = 1
    sample: Annotated[
        int, Bounds(least=0, most=MOST_MEMBERS), "settings to draw from the ranges and choices of --space"
    ] = 0
    even_draws: Annotated[
        bool, "spread the settings of --sample evenly over each range; --no-even-draws: each is drawn by itself"
    ] = True
    share_replay: Annotated[
        bool, "all members insert into one replay and draw from all of it; --no-share-replay: one replay per member"
    ] = True
    concurrent: Annotated[
        int, Bounds(least=0, most=MOST_MEMBERS), "members that train at the same time, the others wait; 0: all"
    ] = 0
    pbt: Annotated[bool, "population based training: members copy and change settings while they train"] = False
    tuner: Annotated[
        Literal["random", "optuna"],
        "chooses the settings of --sample; optuna: by Optuna's TPE, from the scores of earlier settings",
    ] = "random"
    pruner: Annotated[
        Literal["none", "asha"], "asha: successive halving, which ends settings early that fall behind others"
    ] = "none"
    score: Annotated[
        ScoreName,
        "what pruner and tuner compare: the newest evaluation, or the mean return of the last 20 training episodes; "
        "auto: evaluations if all members evaluate",
    ] = "auto"

    @property
    def prunes(self) -> bool:
        """Whether settings that fall behind end early."""
        return self.pruner != "none"

    @property
    def tunes(self) -> bool:
        """Whether settings are chosen while the sweep trains."""
        return self.tuner == "optuna"


def sweep_leaves() -> list[Leaf]:
    """Return every key of a sweep besides those of its members, with its default."""
    sections = [("", SweepOptions()), ("pbt.", PbtConfig()), ("pruner.", PrunerConfig())]
    return [leaf for prefix, section in sections for leaf in find_leaves(section, prefix)]


def find_option_problems(
    options: SweepOptions, listed: Collection[str], space: Collection[str], num_points: int
) -> Iterator[Problem]:
    """Yield what makes no sense together.

    Args:
        options: of the sweep.
        listed: keys of the grid and of zipped lists.
        space: keys of the space.
        num_points: points of grid and lists together, each of which has `options.sample` settings.
    """
    if space and not options.sample:
        yield Problem("sample", "is missing: a space needs a number of settings to draw", "use --sample 20")
    if options.sample and not space:
        remedy = "for example --space 'algorithm.learning-rate=log(1e-4,1e-2)'"
        yield Problem("sample", "has no effect without --space", remedy)
    if options.concurrent and options.pbt:
        wrong = "members that wait cannot be compared, and population based training compares all members"
        yield Problem("concurrent", wrong, "leave out --concurrent or --pbt")
    if options.prunes and options.pbt:
        wrong = "population based training replaces members that fall behind, and a pruner would end them"
        yield Problem("pruner", wrong, "leave out --pruner or --pbt")
    if not options.prunes and not options.tunes and options.score != SweepOptions.score:
        yield Problem("score", "has no effect: there is no pruner and no tuner", "add --pruner asha")
    if options.tunes:
        yield from _tuner_problems(options, listed, space, num_points)


def _tuner_problems(
    options: SweepOptions, listed: Collection[str], space: Collection[str], num_points: int
) -> Iterator[Problem]:
    """Yield why a tuner cannot choose settings."""
    yield from find_missing("tuner", [options.tuner], "leave out --tuner to draw settings at random")
    if options.pbt:
        wrong = "population based training changes the settings that the tuner chose"
        yield Problem("tuner", wrong, "leave out --tuner or --pbt")
    if not space:
        wrong = "has nothing to choose: there is no --space"
        yield Problem("tuner", wrong, "for example --space 'algorithm.learning-rate=log(1e-4,1e-2)'")
    for key in (*space, *listed):
        if not key.startswith(_OF_LEARNING):
            wrong = f"{key} is no setting of learning, so scores would not be comparable"
            remedy = "use --seeds, or leave out --tuner" if key == "seed" else f"use --{key}, or leave out --tuner"
            yield Problem("space" if key in space else "tuner", wrong, remedy)
    num_members = options.sample * options.seeds * num_points
    if not 0 < options.concurrent < num_members and space and options.sample:
        given = f"{options.concurrent} of {num_members:,} members" if options.concurrent else "all members"
        wrong = f"must leave members waiting, whose settings the tuner chooses from earlier scores, got {given}"
        yield Problem("concurrent", wrong, f"use --concurrent {max(1, num_members // 4)}")
