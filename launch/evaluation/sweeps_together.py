"""Sweeps over games together: the best member of the median over games, for each repeat and over repeats.

The LASER paper's protocol (appendix A.3) has a sweep for each game, whose members share one replay. A member is the
same setting in all of these sweeps. Its score is the median over games, and then the best member counts at each point.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laser.config import ConfigError, Problem
from laser.scoring.protocols import OverTasks
from laser.scoring.scores import find_reference
from launch.evaluation.agents_compared import agents_of
from launch.evaluation.sweep_evaluation import BestCurve, MemberRecord, read_best_curve

AgentKey = tuple[str, int]
"""The settings of an agent as words, and its place among agents with the same settings, which differ by their seeds."""


@dataclass(frozen=True)
class SweepOfGames:
    """A sweep's directory, the records of its members, and their mean returns by task.

    Args:
        run_dir: of the sweep.
        records: of the members, in the order of their numbers.
        returns: by the member's place in `records`: mean return by task; a member that could not play is missing.
    """

    run_dir: Path
    records: Sequence[MemberRecord]
    returns: Mapping[int, Mapping[str, float]]

    @property
    def games(self) -> frozenset[str]:
        """The environment ids of its members."""
        return frozenset(record.env for record in self.records)


@dataclass(frozen=True)
class Repeat:
    """One sweep per game (or one of several games), whose members are the same settings.

    Args:
        run_dirs: of the sweeps.
        num_agents: number of settings (and seeds) that all its games have in common.
        best: the settings of the best member by its evaluation; None: no member has played all games, or returns of
            several games have no reference scores to compare them.
        score: of the best member: median over tasks of the normalised scores, or the mean return on a single task.
        is_normalised: whether the score is a normalised one.
        curve: point-wise best while training.
    """

    run_dirs: Sequence[Path]
    num_agents: int
    best: str | None
    score: float | None
    is_normalised: bool
    curve: BestCurve | None

    def to_json(self) -> dict[str, Any]:
        """Return the repeat's entry in the object that `--json` prints."""
        return {
            "run_dirs": [str(path) for path in self.run_dirs],
            "num_agents": self.num_agents,
            "best": self.best,
            "score": self.score,
            "is_normalised": self.is_normalised,
            "best_curve": None if self.curve is None else vars(self.curve),
        }


@dataclass(frozen=True)
class CurveOverRepeats:
    """Mean and standard deviation over repeats of their point-wise best, at the points that all of them have."""

    name: str
    ends: list[float]
    means: list[float]
    deviations: list[float]
    num_repeats: int

    def words(self) -> str:
        """Return a line about the last point."""
        spread = f" +- {self.deviations[-1]:,.3f} over {self.num_repeats} repeats" if self.num_repeats > 1 else ""
        return (
            f"point-wise best while training, {self.name} over games: {self.means[-1]:,.3f}{spread} at "
            f"{self.ends[-1]:,.0f} frames per member"
        )


@dataclass(frozen=True)
class SweepsTogether:
    """Results of sweeps over games, put together.

    Args:
        games: environment ids.
        repeats: each has one sweep of every game.
        left_out: directories of sweeps that belong to no whole repeat.
    """

    games: list[str]
    repeats: list[Repeat]
    left_out: list[Path]

    @property
    def scores(self) -> list[float]:
        """The best member's score of each repeat that has one."""
        return [repeat.score for repeat in self.repeats if repeat.score is not None]

    @property
    def curve(self) -> CurveOverRepeats | None:
        """The curve over repeats; None if a repeat has none."""
        curves = [repeat.curve for repeat in self.repeats if repeat.curve is not None]
        return mean_curve(curves) if curves and len(curves) == len(self.repeats) else None

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        scores, curve = self.scores, self.curve
        return {
            "games": self.games,
            "repeats": [repeat.to_json() for repeat in self.repeats],
            "mean_score": statistics.fmean(scores) if scores else None,
            "score_deviation": statistics.stdev(scores) if len(scores) > 1 else None,
            "best_curve": None if curve is None else vars(curve),
            "left_out": [str(path) for path in self.left_out],
        }

    def lines(self) -> Iterator[str]:
        """Yield the result in words."""
        num = len(self.repeats)
        games = f"{len(self.games)} games" if len(self.games) > 1 else self.games[0]
        yield f"over {games}, {num} repeat{'s' if num > 1 else ''} with one sweep of each:"
        for place, repeat in enumerate(self.repeats, start=1):
            if not repeat.num_agents:
                yield f"  repeat {place}: its sweeps have no settings in common"
            elif repeat.best is None or repeat.score is None:
                yield f"  repeat {place}: no best member, since returns of several games cannot be compared"
            else:
                kind = "median normalised score over tasks" if repeat.is_normalised else "mean return"
                best = f"{repeat.best}, {kind} {repeat.score:,.3f}"
                yield f"  repeat {place}: best of {repeat.num_agents} members: {best}"
        if len(self.scores) > 1:
            mean, deviation = statistics.fmean(self.scores), statistics.stdev(self.scores)
            yield f"  best member: {mean:,.3f} +- {deviation:,.3f} (mean and standard deviation over repeats)"
        if self.curve is not None:
            yield f"  {self.curve.words()}"
        for path in self.left_out:
            yield f"  left out: {path}, since other games have fewer repeats"


def put_together(sweeps: Sequence[SweepOfGames], over_tasks: OverTasks = "median") -> SweepsTogether:
    """Return the results of several sweeps, put together.

    The first sweep of each game makes the first repeat, the second ones the second repeat, and so on.

    Args:
        sweeps: in the order of the user.
        over_tasks: what the curves are of.

    Raises:
        ConfigError: two sweeps have some games in common, but not all.
    """
    _check_games(sweeps)
    seen: Counter[frozenset[str]] = Counter()
    repeats: defaultdict[int, list[SweepOfGames]] = defaultdict(list)
    for each in sweeps:
        repeats[seen[each.games]].append(each)
        seen[each.games] += 1
    num_whole = min(seen.values())
    return SweepsTogether(
        sorted(frozenset().union(*seen)),
        [_repeat_of(repeats[place], over_tasks) for place in range(num_whole)],
        [each.run_dir for place in range(num_whole, len(repeats)) for each in repeats[place]],
    )


def mean_curve(curves: Sequence[BestCurve]) -> CurveOverRepeats | None:
    """Return mean and standard deviation over curves at their common points; None if they have none.

    Args:
        curves: at least one; a point where a curve has no score yet is none of its points.
    """
    by_end = [
        {end: score for end, score in zip(curve.ends, curve.scores, strict=True) if not np.isnan(score)}
        for curve in curves
    ]
    ends = sorted(set.intersection(*(set(scores) for scores in by_end)))
    if not ends:
        return None
    values = np.array([[scores[end] for end in ends] for scores in by_end])
    deviations = values.std(0, ddof=1) if len(curves) > 1 else np.zeros(len(ends))
    return CurveOverRepeats(curves[0].name, ends, values.mean(0).tolist(), deviations.tolist(), len(curves))


def _check_games(sweeps: Sequence[SweepOfGames]) -> None:
    for place, each in enumerate(sweeps):
        for earlier in sweeps[:place]:
            common = each.games & earlier.games
            if common and each.games != earlier.games:
                wrong = f"{earlier.run_dir} and {each.run_dir} have {len(common)} of their games in common, but not all"
                raise ConfigError([Problem("run-dir", wrong, "name sweeps of the same games, or of different ones")])


def _repeat_of(sweeps: Sequence[SweepOfGames], over_tasks: OverTasks) -> Repeat:
    records = [record for sweep in sweeps for record in sweep.records]
    returns = [sweep.returns.get(place, {}) for sweep in sweeps for place in range(len(sweep.records))]
    games = {record.env for record in records}
    agents = agents_of([(record.env, record.overrides) for record in records])
    games_of: defaultdict[AgentKey, set[str]] = defaultdict(set)
    for agent, record in zip(agents, records, strict=True):
        games_of[agent].add(record.env)
    whole = [agent for agent, played in games_of.items() if played == games]
    of_whole = [place for place, agent in enumerate(agents) if agent in whole]
    scores = {agent: _score([returns[place] for place in of_whole if agents[place] == agent]) for agent in whole}
    known = {agent: score for agent, score in scores.items() if score is not None}
    best = max(known, key=lambda agent: known[agent][0], default=None)
    return Repeat(
        [sweep.run_dir for sweep in sweeps],
        len(whole),
        None if best is None else best[0],
        None if best is None else known[best][0],
        best is not None and known[best][1],
        read_best_curve([records[place] for place in of_whole], over_tasks) if of_whole else None,
    )


def _score(of_games: Sequence[Mapping[str, float]]) -> tuple[float, bool] | None:
    """Return an agent's score over its games, and whether it is normalised; None if it cannot be known."""
    if not all(of_games):
        return None  # it could not play one of them
    tasks = {task: value for returns in of_games for task, value in returns.items()}
    references = {task: reference for task in tasks if (reference := find_reference(task)) is not None}
    if len(references) == len(tasks):
        return float(np.median([references[task].normalise(value) for task, value in tasks.items()])), True
    return (next(iter(tasks.values())), False) if len(tasks) == 1 else None
