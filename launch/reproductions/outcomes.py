"""Curves of finished runs at equally spaced env steps, by arm and game, and statistics of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from laser.config import key_of
from laser.scoring.scores import find_reference
from launch.errors import OutputError
from launch.recording.metric_table import EVALUATION, RETURN, SCORE, known_key
from launch.records.metrics_db import read_series
from launch.records.run_record import read_record
from launch.reproductions.figure import Curve, Figure, Statistic
from launch.reproductions.plan import Run, Tuned
from launch.settings.values import flatten

NUM_POINTS = 200
"""So that each of the 200 windows of 1M frames in the 200M of Atari's papers is a point."""
_TAIL = NUM_POINTS // 10
BUCKET = known_key("buckets/mean_return")
LOW, HIGH = known_key("buckets/return_p20"), known_key("buckets/return_p80")
_RETURNS = (RETURN, SCORE, EVALUATION, BUCKET, LOW, HIGH)


def points_of(num_steps: int) -> np.ndarray:
    """Return the env steps [points] at which curves of a run are compared."""
    points: np.ndarray = np.linspace(0, num_steps, NUM_POINTS + 1)[1:]
    return points


def in_force(series: Sequence[tuple[float, float]], points: np.ndarray) -> np.ndarray:
    """Return the current value at each point; a value that did not change is not recorded again.

    Args:
        series: (env steps, value), at least one; before the first the first one counts.
        points: env steps [points].
    """
    steps, values = np.array(series).T
    current: np.ndarray = values[np.maximum(np.searchsorted(steps, points, "right") - 1, 0)]
    return current


def steps_to(curves: np.ndarray, goal: float, num_steps: int) -> np.ndarray:
    """Return the env steps at which each curve [seeds, points] first reaches `goal`; infinity if it never does."""
    reached = curves >= goal
    first = reached.argmax(1) + 1
    return np.where(reached.any(1), first * num_steps / NUM_POINTS, np.inf)


def spread(values: np.ndarray) -> str:
    """Say `median (lower quartile to upper quartile)`."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


@dataclass(frozen=True)
class Outcomes:
    """Curves of all runs of a figure.

    Args:
        figure: the figure.
        games: environment ids.
        steps: env steps of the longest runs.
        curves: float [seeds, members, points] by metric, arm and game; NaN where a run is not finished. A single run
            has one member. Returns are normalised if the figure's are and every game has reference scores.
        normalised: whether they are.
        lengths: env steps of the runs by arm and game.
        settings: float [seeds, members] of the figure's `finals` by setting, arm and game; NaN where a run is not
            finished.
        begins: env steps by metric, arm and game from which on every finished run has a value (a sweep, of one member);
            before, its first value stands in the curves, and nothing is drawn.
    """

    figure: Figure
    games: Sequence[str]
    steps: int
    curves: Mapping[tuple[str, str, str], np.ndarray]
    normalised: bool
    lengths: Mapping[tuple[str, str], int]
    settings: Mapping[tuple[str, str, str], np.ndarray] = field(default_factory=dict)
    begins: Mapping[tuple[str, str, str], float] = field(default_factory=dict)

    def length(self, arm: str, game: str) -> int:
        """Return the env steps of an arm's runs on a game; "": the most over games."""
        return self.lengths[arm, game] if game else max(self.lengths[arm, each] for each in self.games)

    def begin(self, metric: str, arm: str, game: str) -> float:
        """Return the env steps from which on an arm's curve is drawn; "": over games, from the last of them."""
        return max(self.begins.get((metric, arm, each), 0.0) for each in ([game] if game else self.games))

    def curve(self, metric: str, arm: str, game: str) -> np.ndarray:
        """Return the curves [seeds, points] of an arm, of sweeps the best member's at each point or the members' mean.

        Args:
            metric: the metric.
            arm: label of the arm.
            game: environment id, or "" for the median over games, which is taken before the best member.
        """
        if game:
            rows = self.curves[metric, arm, game]
        else:
            rows = np.median([self.curves[metric, arm, each] for each in self.games], axis=0)
        with np.errstate(invalid="ignore"):
            reduced: np.ndarray = rows.max(1) if self.figure.members == "best" else rows.mean(1)
        return reduced

    def finals(self, arm: str, game: str) -> np.ndarray:
        """Return the mean [seeds, members] of the last tenth of the first curve, of each member of an arm's sweeps."""
        return np.asarray(self.curves[self.figure.curves[0].metric, arm, game][:, :, -_TAIL:].mean(2))

    def statistic(self, metric: str, arm: str, game: str, statistic: Statistic, until: int = 0) -> np.ndarray:
        """Return a statistic [seeds] of each run, NaN for runs that are not finished.

        Args:
            metric: the metric.
            arm: label of the arm.
            game: environment id, or "" for the median over games.
            statistic: `final`, the mean of the last tenth; `area`, the mean; `best`, the largest value, over games the
                median of each game's largest.
            until: env steps after which the rest of longer runs is left out; 0: all of each run.
        """
        if statistic == "best" and not game:
            return np.asarray(np.median([self.statistic(metric, arm, each, "best", until) for each in self.games], 0))
        curve = self.curve(metric, arm, game)
        length = self.length(arm, game)
        if 0 < until < length:
            place = np.ceil(points_of(until) / length * NUM_POINTS).astype(int) - 1
            curve = curve[:, place]
        if statistic == "best":
            return np.asarray(curve.max(1))
        return np.asarray((curve[:, -_TAIL:] if statistic == "final" else curve).mean(1))


def read_outcomes(figure: Figure, runs: Sequence[Run], places: Mapping[str, Path], small: bool) -> Outcomes:
    """Return the curves of a figure's runs.

    Args:
        figure: the figure.
        runs: all its runs.
        places: directories of the finished ones, by the run's name.
        small: whether they are of the smallest size.

    Raises:
        OutputError: a run has not recorded a metric of the figure.
    """
    games = list(dict.fromkeys(run.game for run in runs))
    seeds = sorted({run.seed for run in runs})
    by_place = {(run.arm, run.game, run.seed): run for run in runs}
    normalised = figure.normalised and all(find_reference(game) is not None for game in games)
    curves, begins = {}, {}
    percentiles = [Curve(LOW, "20th percentile"), Curve(HIGH, "80th percentile")] if figure.band == "episodes" else []
    for curve in (*figure.curves, *percentiles):
        recorded = _recorded(curve, small)
        for arm in [arm.label for arm in figure.arms]:
            for game in games:
                rows, firsts = [], [0.0]
                for seed in seeds:
                    run = by_place[arm, game, seed]
                    row, first = _read(run, places.get(run.name), recorded, curve != figure.curves[0])
                    reference = find_reference(game) if normalised and recorded in _RETURNS else None
                    size = 1.0 if reference is None else reference.human - reference.random
                    rows.append((row - (reference.random if reference else 0.0)) / size)
                    firsts.append(first)
                curves[curve.metric, arm, game], begins[curve.metric, arm, game] = np.array(rows), max(firsts)
    lengths = {(run.arm, run.game): run.config.steps for run in runs}
    settings = {
        (key, arm.label, game): np.array(
            [_settings(run, places.get(run.name), key) for run in runs if (run.arm, run.game) == (arm.label, game)]
        )
        for key in figure.finals
        for arm in figure.arms
        for game in games
    }
    return Outcomes(figure, games, max(lengths.values()), curves, normalised, lengths, settings, begins)


def choose_settings(figure: Figure, runs: Sequence[Run], places: Mapping[str, Path], small: bool) -> Tuned:
    """Return the settings with the largest median area under the first curve, by arm and game.

    Args:
        figure: the figure.
        runs: of its tuning.
        places: directories of the finished ones, by the run's name.
        small: whether they are of the smallest size.

    Raises:
        OutputError: a run has not recorded the curve, or no run of an arm is finished.
    """
    areas: dict[tuple[str, str], dict[int, list[float]]] = {}
    settings: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for run in runs:
        if run.name in places:
            rows, _ = _read(run, places[run.name], _recorded(figure.curves[0], small))
            areas.setdefault((run.arm, run.game), {}).setdefault(run.trial, []).append(float(rows.mean()))
            settings[run.arm, run.game, run.trial] = run.tuned
    for run in runs:
        if (run.arm, run.game) not in areas:
            raise OutputError(run.name, "no run of its tuning is finished", "the same command tries them again")
    best = {key: max(trials, key=lambda trial: float(np.median(trials[trial]))) for key, trials in areas.items()}
    return {(arm, game): settings[arm, game, trial] for (arm, game), trial in best.items()}


def _settings(run: Run, place: Path | None, key: str) -> list[float]:
    """Return a setting of each member of a run; NaN for a run that is not finished."""
    if place is None:
        return [math.nan] * run.num_members
    configs = [read_record(member)["config"] for member in _members(run, place)]
    return [float({key_of(name): value for name, value in flatten(config).items()}[key]) for config in configs]


def _members(run: Run, place: Path) -> list[Path]:
    """Return the directories of a run's members; a single run has one."""
    return [place] if run.num_members == 1 else [place / "members" / str(each) for each in range(run.num_members)]


def _recorded(curve: Curve, small: bool) -> str:
    return curve.small_metric if small and curve.small_metric else curve.metric


def _read(run: Run, place: Path | None, metric: str, may_lack: bool = False) -> tuple[np.ndarray, float]:
    """Return a run's curves [members, points], and the env steps of the first value that any member has.

    NaN and 0 for a run that is not finished, or does not have the metric.
    """
    points = points_of(run.config.steps)
    if place is None:
        return np.full((run.num_members, NUM_POINTS), np.nan), 0.0
    rows, firsts = [], []
    for member in _members(run, place):
        series = read_series(member / "metrics.db", metric)
        if not series and may_lack:
            rows.append(np.full(NUM_POINTS, np.nan))
            continue
        if not series:
            raise OutputError(
                str(run.name), f"{member} has recorded nothing of {metric}", "make the runs longer: --scale"
            )
        rows.append(in_force(series, points))
        firsts.append(float(series[0][0]))
    return np.array(rows), min(firsts, default=0.0)
