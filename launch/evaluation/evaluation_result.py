"""Result of an evaluation in numbers and words: returns with intervals, beside humans, random play and the paper."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from laser.scoring.published import PublishedScores, find_published
from laser.scoring.published_reactor import find_human_start_scores
from laser.scoring.scores import Reference, find_reference
from laser.scoring.statistics import (
    Statistic,
    bootstrap_interval,
    interquartile_mean,
    mean,
    mean_capped,
    median_over_tasks,
)
from launch.evaluation.standing import Standing, find_standing, rank_words

Interval = tuple[float, float]
Summary = dict[str, tuple[float, Interval | None]]
"""Normalised scores over tasks by name, each with its interval; None: there is a single run."""
_SUMMARIES: dict[str, Statistic] = {
    "median": median_over_tasks,
    "mean": mean,
    "mean_capped": mean_capped,
    "interquartile_mean": interquartile_mean,
}


@dataclass(frozen=True)
class TaskResult:
    """Whole episodes of one task.

    Args:
        id: of the environment.
        returns: undiscounted and unclipped.
        lengths: in env steps.
        video: of the first.
        behind_starts: whether they began behind starts that people played, not behind no-ops.
    """

    id: str
    returns: list[float]
    lengths: list[int]
    video: Path | None = None
    behind_starts: bool = False

    @property
    def mean_return(self) -> float:
        """Mean return."""
        return statistics.fmean(self.returns)

    @cached_property
    def interval(self) -> Interval | None:
        """95 % bootstrap interval of the mean return over episodes; None of a single one."""
        return _interval(np.array(self.returns)[:, None], mean)

    @property
    def reference(self) -> Reference | None:
        """Random and human scores from starts of the same kind; None if they are unknown."""
        if not self.behind_starts:
            return find_reference(self.id)
        published = find_human_start_scores(self.id)
        return None if published is None else Reference(published["random"], published["human"])

    @property
    def published(self) -> PublishedScores | None:
        """The LASER paper's scores; None if it has none."""
        return find_published(self.id)

    @property
    def normalised(self) -> float | None:
        """Mean return, scaled to 0 for random and 1 for human play; None without reference scores."""
        return self.reference.normalise(self.mean_return) if self.reference else None

    @property
    def normalised_interval(self) -> Interval | None:
        """The interval, scaled in the same way; None without it or without reference scores."""
        if self.reference is None or self.interval is None:
            return None
        low, high = self.interval
        return self.reference.normalise(low), self.reference.normalise(high)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the task."""
        return {
            "env": self.id,
            "episodes": len(self.returns),
            "mean_return": self.mean_return,
            "interval": None if self.interval is None else list(self.interval),
            "normalised": self.normalised,
            "normalised_interval": None if self.normalised_interval is None else list(self.normalised_interval),
            "published": None if self.published is None else vars(self.published),
            "published_human_starts": find_human_start_scores(self.id),
            "mean_length": statistics.fmean(self.lengths),
            "returns": self.returns,
            "video": None if self.video is None else str(self.video),
        }

    def words(self) -> str:
        """Return interval, normalised score, the paper's numbers and the video's path, a line each."""
        facts = []
        if self.interval is not None:
            facts.append(f"95 % interval over episodes {write_interval(self.interval, ',.2f')}")
        if self.normalised is not None:
            around = in_brackets(self.normalised_interval)
            facts.append(f"normalised {self.normalised:.3f}{around}, random 0, {_one(self.id)} 1")
        lines = [f"  {'; '.join(facts)}"] if facts else []
        if self.published is not None:
            lines.append(f"  the LASER paper: {published_words(self.published)}")
        if self.video is not None:
            lines.append(f"  video: {self.video}")
        rank = rank_words(self.id, self.mean_return)
        if rank is not None:
            lines.append(f"  {rank}")
        return "\n".join(lines)


@dataclass(frozen=True)
class EpisodeCounts:
    """Numbers of episodes of an evaluation: `asked` by the user, `played` to their end, `failed` by reason.

    Each environment plays the same number, so `played` may exceed `asked`.
    """

    asked: int
    played: int
    failed: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entries in the object that `--json` prints."""
        return {f"episodes_{name}": value for name, value in vars(self).items()}


@dataclass(frozen=True)
class EvaluationResult:
    """Returns of an agent on its tasks, with the same number of episodes of each.

    Args:
        run_dir: of the agent.
        env: of its training, as the user wrote it.
        env_steps: length of its training.
        tasks: one result for each task.
        greedy: the most likely action instead of a sample.
        seed: of environments and policy.
        protocol: values of the environment's flags, by name.
        episodes_asked: episodes that the user asked for, over all tasks.
        log: the data set that the episodes were written to; "": none.
    """

    run_dir: Path
    env: str
    env_steps: int
    tasks: list[TaskResult]
    greedy: bool
    seed: int
    protocol: dict[str, Any] = field(default_factory=dict)
    episodes_asked: int = 0
    log: str = ""

    @property
    def returns(self) -> list[float]:
        """Returns of all episodes, task by task."""
        return [value for task in self.tasks for value in task.returns]

    @property
    def lengths(self) -> list[int]:
        """Lengths of all episodes, task by task."""
        return [value for task in self.tasks for value in task.lengths]

    @property
    def mean_return(self) -> float:
        """Mean return over all episodes; with several tasks on different scales it means little."""
        return statistics.fmean(self.returns)

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean return; None of a single episode."""
        returns = self.returns
        return statistics.stdev(returns) / math.sqrt(len(returns)) if len(returns) > 1 else None

    @cached_property
    def summary(self) -> Summary | None:
        """Normalised scores over tasks with 95 % stratified bootstrap intervals; None if a reference is missing."""
        references = [task.reference for task in self.tasks]
        columns = [
            [reference.normalise(value) for value in task.returns]
            for task, reference in zip(self.tasks, references, strict=True)
            if reference is not None
        ]
        if len(columns) < len(self.tasks):
            return None
        return summarise_runs(np.array(columns).T)

    @cached_property
    def standing(self) -> Standing | None:
        """Mean rank and Elo among the Reactor paper's agents; None if the paper has a score for none of the tasks."""
        return find_standing({task.id: task.mean_return for task in self.tasks})

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        one = self.tasks[0].to_json() if len(self.tasks) == 1 else {}
        several = {
            "tasks": [task.to_json() for task in self.tasks],
            "summary": None if self.summary is None else summary_to_json(self.summary),
            "standing": None if self.standing is None else self.standing.to_json(),
        }
        return {
            **(one or several),
            "run_dir": str(self.run_dir),
            "env": self.env,
            "env_steps": self.env_steps,
            "episodes": len(self.returns),
            **EpisodeCounts(self.episodes_asked or len(self.returns), len(self.returns)).to_json(),
            "mean_return": self.mean_return,
            "standard_error": self.standard_error,
            "median_return": statistics.median(self.returns),
            "min_return": min(self.returns),
            "max_return": max(self.returns),
            "mean_length": statistics.fmean(self.lengths),
            "greedy": self.greedy,
            "seed": self.seed,
            "protocol": self.protocol,
            "log": self.log or None,
            "returns": self.returns,
        }

    def words(self) -> str:
        """Return the output of `laser eval`."""
        kind = "greedy" if self.greedy else "sampled"
        if len(self.tasks) > 1:
            return "\n".join([f"{self.env} after {self.env_steps:,} env steps, {kind} actions:", *self._table()])
        begin, more = f"{self.env} after {self.env_steps:,} env steps:", self.tasks[0].words()
        if self.standard_error is None:
            first = f"{begin} return {self.mean_return:,.2f} in 1 {kind} episode"
        else:
            first = (
                f"{begin} mean return {self.mean_return:,.2f} ± {self.standard_error:.2f} (standard error) over "
                f"{len(self.returns)} {kind} episodes, from {min(self.returns):,.1f} to {max(self.returns):,.1f}"
            )
        return f"{first}\n{more}" if more else first

    def _table(self) -> list[str]:
        width = max(len(task.id) for task in self.tasks)
        lines = [f"  {'task':<{width}}  {'mean return':>14}  {'95 % interval':>25}  {'normalised':>10}"]
        for task in self.tasks:
            around = write_interval(task.interval, ",.1f")
            score = "" if task.normalised is None else f"{task.normalised:.3f}"
            lines.append(f"  {task.id:<{width}}  {task.mean_return:>14,.2f}  {around:>25}  {score:>10}")
        for name, (value, around_value) in (self.summary or {}).items():
            lines.append(f"  normalised {name.replace('_', ' ')} over tasks: {value:.3f}{in_brackets(around_value)}")
        return lines if self.standing is None else [*lines, *self.standing.lines()]


def summarise_runs(scores: np.ndarray) -> Summary:
    """Return median, mean, capped mean and interquartile mean, each with its 95 % stratified bootstrap interval.

    Args:
        scores: [num_runs, num_tasks], normalised; a run is a seed of an agent, or an episode of a single agent. A
            single run has no interval.
    """
    return {name: (float(of(scores)), _interval(scores, of)) for name, of in _SUMMARIES.items()}


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """Return a summary's scores and intervals by name, as JSON values."""
    return {
        name: {"score": score, "interval": None if around is None else list(around)}
        for name, (score, around) in summary.items()
    }


def write_interval(interval: Interval | None, form: str) -> str:
    """Return `LOW to HIGH` in a number format, or "" where there is no interval."""
    return "" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"


def in_brackets(interval: Interval | None) -> str:
    """Return ` (LOW to HIGH)` of a normalised score, or "" where there is no interval."""
    return "" if interval is None else f" ({write_interval(interval, '.3f')})"


def published_words(scores: PublishedScores) -> str:
    """Return the paper's numbers for a game in words."""
    named = {
        "shared replay after 50M frames": scores.laser_shared_50m,
        "after 200M": scores.laser_shared_200m,
        "own replay after 50M": scores.laser_50m,
        "Rainbow after 200M": scores.rainbow_200m,
    }
    return ", ".join(f"{name} {value:,.1f}" for name, value in named.items() if value is not None)


def _one(id: str) -> str:
    return "the best policy" if id.startswith("mini/") else "human"


def _interval(scores: np.ndarray, statistic: Statistic) -> Interval | None:
    if len(scores) < 2:
        return None
    # A new generator, so that the interval depends on the episodes only.
    return bootstrap_interval(scores, statistic, np.random.default_rng(0))
