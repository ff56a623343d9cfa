"""Verdicts: a rule of a figure's file applied to the runs, with an interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from laser.scoring.statistics import mean_interval, share_interval
from launch.reproductions.figure import Rule
from launch.reproductions.outcomes import NUM_POINTS, Outcomes, steps_to

REPRODUCED, CONTRADICTED, UNDECIDED = "reproduced", "not reproduced", "undecided"


@dataclass(frozen=True)
class Verdict:
    """The result of a rule.

    Args:
        rule: the rule.
        estimate: what it is about; NaN without runs.
        low: lower end of the 95 % interval.
        high: its upper end.
        num: runs, or pairs of runs, that it rests on.
        words: `reproduced`, `not reproduced` if the whole interval is elsewhere, else `undecided`.
    """

    rule: Rule
    estimate: float
    low: float
    high: float
    num: int

    @property
    def words(self) -> str:
        """The verdict."""
        above, below = self.low > self.rule.threshold, self.high < self.rule.threshold
        if self.rule.side == "within":
            if above or self.high < self.rule.lower:
                return CONTRADICTED
            return REPRODUCED if below and self.low > self.rule.lower else UNDECIDED
        if not (above or below):
            return UNDECIDED
        return REPRODUCED if above == (self.rule.side == "above") else CONTRADICTED

    @property
    def numbers(self) -> str:
        """The estimate, its interval and what it rests on."""
        interval = "no interval from one run" if math.isinf(self.high) else f"{self.low:.3g} to {self.high:.3g}"
        return "no finished runs" if not self.num else f"{self.estimate:.3g} ({interval}, n = {self.num})"

    def __str__(self) -> str:
        return f"{self.words}: {self.rule.claim}: {self.rule}: {self.numbers}"

    def to_json(self) -> dict[str, Any]:
        """Return the verdict for `results.json`; numbers that are not finite become None."""
        numbers = {name: getattr(self, name) for name in ("estimate", "low", "high")}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        rule = {**asdict(self.rule), "words": str(self.rule)}
        return {"verdict": self.words, **finite, "num": self.num, "numbers": self.numbers, "rule": rule}


def judge(rule: Rule, outcomes: Outcomes) -> Verdict:
    """Return the verdict of a rule.

    Runs of two arms are compared seed by seed within each game, up to the env steps that both have. `wins` counts the
    pairs in which the first arm has more, equal ones half, with Wilson's interval. The others have Student's interval;
    differences of values that are not normalised are in units of the range of all arms' values in their game. `value`
    is taken over games: the median of each seed. `near_best` counts members of sweeps, over all seeds and games, with
    Wilson's interval.
    """
    metric = rule.metric or outcomes.figure.curves[0].metric
    if rule.compare == "value":
        whole = outcomes.statistic(
            metric, rule.arm, "" if len(outcomes.games) > 1 else outcomes.games[0], rule.statistic
        )
        return _of_mean(rule, whole[np.isfinite(whole)])
    if rule.compare == "near_best":
        return _near_best(rule, outcomes)
    if rule.compare == "speed":
        return _of_ratio(rule, *_steps_needed(rule, outcomes, metric))
    ours, theirs, scales = [], [], []
    for game in outcomes.games:
        until = min(outcomes.length(rule.arm, game), outcomes.length(rule.than, game))
        rows = {
            arm.label: outcomes.statistic(metric, arm.label, game, rule.statistic, until)
            for arm in outcomes.figure.arms
            if outcomes.length(arm.label, game) >= until
        }
        known = np.concatenate([row[np.isfinite(row)] for row in rows.values()])
        scale = float(np.ptp(known)) if len(known) and not outcomes.normalised else 1.0
        ours.append(rows[rule.arm])
        theirs.append(rows[rule.than])
        scales.append(np.full(len(rows[rule.arm]), scale or 1.0))
    first, second = np.concatenate(ours), np.concatenate(theirs)
    there = np.isfinite(first) & np.isfinite(second)
    first, second, scale_of = first[there], second[there], np.concatenate(scales)[there]
    if rule.compare == "wins":
        return _of_wins(rule, first, second)
    if rule.compare == "difference":
        return _of_mean(rule, (first - second) / scale_of)
    return _of_ratio(rule, first, second)


def _steps_needed(rule: Rule, outcomes: Outcomes, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the env steps that each run of both arms needs; those that never get there count with their length.

    The last part of a curve that ends at its plateau is noise, so 95 % of the median rise counts as reached.
    """
    needed: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for game in outcomes.games:
        rows = [outcomes.curve(metric, arm, game) for arm in (rule.arm, rule.than)]
        there = np.isfinite(rows[0]).all(1) & np.isfinite(rows[1]).all(1)
        if not there.any():
            continue
        base = rows[1][there]
        bottom, top = np.median(base[:, 0]), np.median(base[:, -NUM_POINTS // 10 :])
        for arm, row, found in zip((rule.arm, rule.than), rows, needed, strict=True):
            length = outcomes.length(arm, game)
            found.append(np.minimum(steps_to(row[there], float(bottom + 0.95 * (top - bottom)), length), length))
    first, second = (np.concatenate(found) if found else np.zeros(0) for found in needed)
    return first, second


def _near_best(rule: Rule, outcomes: Outcomes) -> Verdict:
    num, num_near = 0, 0
    for game in outcomes.games:
        values = outcomes.finals(rule.arm, game)
        known = values[np.isfinite(values)]
        num += len(known)
        num_near += int((known >= (known.min() + known.max()) / 2.0).sum()) if len(known) else 0
    if not num:
        return Verdict(rule, math.nan, 0.0, 1.0, 0)
    return Verdict(rule, num_near / num, *share_interval(float(num_near), num), num)


def _of_ratio(rule: Rule, first: np.ndarray, second: np.ndarray) -> Verdict:
    positive = (first > 0.0) & (second > 0.0)
    log = _of_mean(rule, np.log(first[positive] / second[positive]))
    return Verdict(rule, _exp(log.estimate), _exp(log.low), _exp(log.high), log.num)


def _of_wins(rule: Rule, first: np.ndarray, second: np.ndarray) -> Verdict:
    num = len(first)
    if not num:
        return Verdict(rule, math.nan, 0.0, 1.0, 0)
    wins = float((first > second).sum() + 0.5 * (first == second).sum())
    return Verdict(rule, wins / num, *share_interval(wins, num), num)


def _of_mean(rule: Rule, values: np.ndarray) -> Verdict:
    if not len(values):
        return Verdict(rule, math.nan, -math.inf, math.inf, 0)
    mean, half = mean_interval(values.tolist())
    return Verdict(rule, mean, mean - half, mean + half, len(values))


def _exp(value: float) -> float:
    return math.inf if value > 700.0 else math.exp(value)
