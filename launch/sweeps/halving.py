"""Asynchronous successive halving: which settings of a sweep go on, and which end early, without any training.

Rungs lie at `first_rung`, `first_rung * reduction`, `first_rung * reduction**2` env steps and so on. A setting that
reaches a rung leaves its score there. It goes on only if its score is among the best 1/reduction of the scores left
there so far; the best one always goes on. Nobody waits: a setting is compared with those that came before it.

The seeds of a setting are judged together, by the mean of their scores, once those of them that train have all reached
the rung. A seed that comes later changes the mean, and the setting is judged again.

Source: Li et al. 2020, A System for Massively Parallel Hyperparameter Tuning, section 3.2, in the form that stops
trials: a member trains until it is judged, instead of pausing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from laser.config import Bounds, Problem
from launch.settings.train_config import TrainConfig

_RUNGS_BY_DEFAULT = 3


@dataclass(frozen=True)
class PrunerConfig:
    """Settings of the pruner: places of the rungs, and the share that goes on."""

    first_rung: Annotated[
        int,
        Bounds(least=0),
        "env steps at which settings are first compared; 0: three rungs within the run, from replay.min-steps on",
    ] = 0
    reduction: Annotated[int, Bounds(least=2), "one in so many settings goes on; also the factor between two rungs"] = 3

    def first(self, configs: Sequence[TrainConfig]) -> int:
        """Return the env steps of the first rung of members with these configs."""
        shortest = min(config.steps for config in configs)
        return self.first_rung or max(-(-shortest // self.reduction**_RUNGS_BY_DEFAULT), _learning_begins(configs))

    def never(self, configs: Sequence[TrainConfig], num_settings: int) -> Iterator[Problem]:
        """Yield the reasons why settings of members with these configs would never be compared."""
        steps = min(config.steps for config in configs)
        if self.first_rung >= steps:
            wrong = f"must be below the {steps:,} env steps of the run, got {self.first_rung:,}"
            yield Problem("pruner.first-rung", wrong, "lower it, or leave it out")
        elif self.first(configs) >= steps:
            first = self.first(configs)
            wrong = f"compares settings when they learn, from {first:,} env steps on, and the run has {steps:,}"
            yield Problem("pruner", wrong, "raise --steps, lower --replay.min-steps, or leave out --pruner")
        if num_settings < 2:
            wrong = "needs several settings to compare, and the sweep has one"
            yield Problem("pruner", wrong, "list values with --grid, --zip or --space, or leave out --pruner")
        if len({config.env for config in configs}) > 1:
            wrong = "returns in different environments cannot be compared"
            yield Problem("pruner", wrong, "list one environment, or leave out --pruner")

    def warnings(self, configs: Sequence[TrainConfig]) -> Iterator[Problem]:
        """Yield what is unexpected about the places of the rungs."""
        begins = _learning_begins(configs)
        if 0 < self.first_rung < begins:
            wrong = f"compares settings at {self.first_rung:,} env steps, and members learn from {begins:,} on"
            yield Problem("pruner.first-rung", wrong, "raise it, or leave it out")


def _learning_begins(configs: Sequence[TrainConfig]) -> int:
    """Return the env steps from which on members with a replay of their own learn; a shared one fills sooner."""
    return max(config.replay.min_steps if config.algorithm.num_drawn else 0 for config in configs)


def rungs_below(steps: int, first: int, reduction: int) -> list[int]:
    """Return the env steps of the rungs of a run, ascending: those below its end, where nothing is left to save."""
    rungs = []
    while first < steps:
        rungs.append(first)
        first *= reduction
    return rungs


@dataclass(frozen=True)
class Verdict:
    """The judgement of a setting at a rung.

    Args:
        setting: its number.
        rung: env steps of the rung.
        score: mean score of its seeds there.
        rank: its place among the settings that were judged there so far; 1 is the best.
        num_settings: their number, this one included.
        goes_on: whether it goes on.
    """

    setting: int
    rung: int
    score: float
    rank: int
    num_settings: int
    goes_on: bool

    def words(self) -> str:
        """Return rung, score and rank as text."""
        return f"rung {self.rung:,}: {self.score:,.1f}, rank {self.rank} of {self.num_settings}"


class Rungs:
    """The scores that a sweep's settings left at its rungs, and the settings that ended there.

    Args:
        reduction: one in so many settings goes on.
        setting_of: number of each member's setting, by the member's number.
    """

    def __init__(self, reduction: int, setting_of: Mapping[int, int]):
        self._reduction = reduction
        self._setting_of = dict(setting_of)
        self._scores: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._judged: defaultdict[int, dict[int, tuple[float, int]]] = defaultdict(dict)
        self.pruned: dict[int, Verdict] = {}
        """The verdicts that ended settings, by the setting's number."""

    def has(self, member: int, rung: int) -> bool:
        """Return whether a member has left its score at a rung."""
        return member in self._scores[rung]

    def leave(self, member: int, rung: int, score: float) -> None:
        """Keep a member's score at a rung; NaN counts as worse than any other score."""
        self._scores[rung][member] = -math.inf if math.isnan(score) else score

    def judge(self, setting: int, training: Collection[int]) -> list[Verdict]:
        """Judge a setting at every rung where it has new scores and waits for no other seed.

        Args:
            setting: its number.
            training: members that train now.

        Returns:
            the verdicts, by ascending rung; a setting that does not go on is not judged any further.
        """
        verdicts: list[Verdict] = []
        seeds = {member for member, its_setting in self._setting_of.items() if its_setting == setting}
        for rung in sorted(self._scores):
            scores = [score for member, score in self._scores[rung].items() if member in seeds]
            if setting in self.pruned or not seeds.intersection(training) <= self._scores[rung].keys():
                break
            _, num_before = self._judged[rung].get(setting, (0.0, 0))
            if len(scores) > num_before:
                verdicts.append(self._verdict(setting, rung, scores))
        return verdicts

    def take(self, verdict: Verdict, num_seeds: int) -> None:
        """Take in a verdict of an interrupted sweep, which judged that many seeds."""
        self._judged[verdict.rung][verdict.setting] = verdict.score, num_seeds
        if not verdict.goes_on:
            self.pruned[verdict.setting] = verdict

    def _verdict(self, setting: int, rung: int, scores: Sequence[float]) -> Verdict:
        score = sum(scores) / len(scores)
        judged = {**self._judged[rung], setting: (score, len(scores))}
        rank = 1 + sum(other > score for other, _ in judged.values())
        goes_on = rank <= max(1, len(judged) // self._reduction)
        verdict = Verdict(setting, rung, score, rank, len(judged), goes_on)
        self.take(verdict, len(scores))
        return verdict
