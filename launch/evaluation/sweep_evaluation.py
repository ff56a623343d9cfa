"""Result of a sweep's evaluation: every member, the best member, and the best score at every point of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from laser.environments import task_ids
from laser.scoring.protocols import BucketScores, OverTasks, point_wise_best, protocol_for
from launch.evaluation.agents_compared import AgentsCompared, agents_of, compare_agents
from launch.evaluation.evaluation_result import EpisodeCounts, EvaluationResult, in_brackets, write_interval
from launch.evaluation.settings_compared import SettingReturns, best_setting, compare_settings
from launch.recording.metric_table import known_key
from launch.records.curves import bucket_scores
from launch.records.series import EMPTY, UnreadableError, read_series

_BUCKET_ENDS = known_key("buckets/ends_at")


@dataclass(frozen=True)
class MemberEvaluation:
    """Evaluation of one member: its overrides, and its result or the reason why it could not play.

    `ended` holds the settings that population based training changed, as they were at the end.
    """

    number: int
    overrides: dict[str, str]
    result: EvaluationResult | None
    error: str = ""
    episodes: EpisodeCounts | None = None
    """Of a member that could not play."""
    ended: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the member's entry in the object that `--json` prints."""
        counts = {} if self.episodes is None else self.episodes.to_json()
        played = counts | {"error": self.error} if self.result is None else self.result.to_json()
        ended = {"ended": dict(self.ended)} if self.ended else {}
        return {"member": self.number, "overrides": self.overrides} | ended | played

    @property
    def score(self) -> float:
        """Score for ranking: median normalised score over tasks if there is one, else mean return."""
        if self.result is None:
            return -math.inf
        return self.result.summary["median"][0] if self.result.summary else self.result.mean_return


@dataclass(frozen=True)
class BestCurve:
    """Point-wise best of a sweep during training: `scores` at `ends` (frames); `name` describes the score in words."""

    name: str
    ends: list[float]
    scores: list[float]

    def words(self) -> str:
        """Return a line about the last point."""
        score, end = self.scores[-1], self.ends[-1]
        return f"point-wise best while training, {self.name}: {score:,.3f} at {end:,.0f} frames per member"


@dataclass(frozen=True)
class MemberRecord:
    """Record of a member: its `metrics.db`, its environment id, and its overrides."""

    metrics: Path
    env: str
    overrides: Mapping[str, Any]

    @property
    def number(self) -> int:
        """The member's number, which names its directory."""
        return int(self.metrics.parent.name)


@dataclass(frozen=True)
class SweepEvaluation:
    """Results of the members of a sweep, which all played the same number of episodes.

    Args:
        run_dir: of the sweep.
        members: in the order of their numbers; at least one could play.
        curve: None if no bucket was completed.
        records: of the members whose record can be read, also of those that could not play.
    """

    run_dir: Path
    members: list[MemberEvaluation]
    curve: BestCurve | None
    records: list[MemberRecord] = field(default_factory=list)

    def result_of(self, record: MemberRecord) -> EvaluationResult | None:
        """Return the result of the member with a record; None if it could not play."""
        return next((each.result for each in self.members if each.number == record.number), None)

    @property
    def best(self) -> MemberEvaluation | None:
        """The member with the highest score; None if members play different games, whose scores cannot be compared."""
        if len({member.result.env for member in self.members if member.result is not None}) > 1:
            return None
        return max(self.members, key=lambda member: member.score)

    @cached_property
    def agents(self) -> AgentsCompared | None:
        """Comparison of the settings over games and seeds; None without several of either."""
        return compare_agents(
            (each.overrides, {task.id: task.mean_return for task in each.result.tasks})
            for each in self.members
            if each.result is not None
        )

    @property
    def best_setting(self) -> SettingReturns | None:
        """The setting with the highest mean return over its seeds; None for different games."""
        played = ((m.number, m.overrides, m.result.mean_return) for m in self.members if m.result is not None)
        return best_setting(compare_settings(played))

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        agents, best = self.agents, self.best
        played = [member.result for member in self.members if member.result is not None]
        return {
            "run_dir": str(self.run_dir),
            "mean_return": float(np.mean([result.mean_return for result in played])),
            "best_return": best.result.mean_return if best is not None and best.result is not None else None,
            "best_member": None if best is None else best.number,
            "best_setting": None if self.best_setting is None else self.best_setting.to_json(),
            "episodes": sum(len(result.returns) for result in played),
            "best_curve": None if self.curve is None else vars(self.curve),
            "agents": None if agents is None else agents.to_json(),
            "members": [member.to_json() for member in self.members],
        }

    def words(self) -> str:
        """Return the output of `laser eval`."""
        rows = [("member", "mean return", "95 % interval", "normalised", "settings")]
        for member in sorted(self.members, key=lambda member: -member.score):
            settings = ", ".join(f"{key}={value}" for key, value in {**member.overrides, **member.ended}.items())
            if member.result is None:
                rows.append((str(member.number), "none", "", "", f"{settings}  ({member.error})"))
                continue
            tasks, summary = member.result.tasks, member.result.summary
            around = write_interval(tasks[0].interval, ",.1f") if len(tasks) == 1 else ""
            normalised = ""
            if summary is not None:
                score, between = summary["median"]
                normalised = f"{score:.3f}{in_brackets(between)}"
            rows.append((str(member.number), f"{member.result.mean_return:,.2f}", around, normalised, settings))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
        best = self.best
        if best is not None:
            lines.append(f"best: member {best.number} (chosen by these episodes; {self.run_dir}/members)")
            if len(self.members) > 1 and best.result is not None:
                lines.append(best.result.words())
        if self.agents is not None:
            lines += self.agents.lines()
        if self.curve is not None:
            lines.append(self.curve.words())
        return "\n".join(lines)


def read_best_curve(members: Sequence[MemberRecord], over_tasks: OverTasks = "median") -> BestCurve | None:
    """Return the point-wise best of the members' bucketed curves; None if there is none.

    Members that differ only in their game are one agent. Its score is the median over its games, or the capped mean.
    """
    protocol = protocol_for([task for member in members for task in task_ids(member.env)], over_tasks)
    runs = [
        BucketScores(agent, _read_curve(member.metrics, f"buckets/{protocol.score}"))
        for agent, member in zip(
            agents_of([(member.env, member.overrides) for member in members]), members, strict=True
        )
    ]
    ends, scores = point_wise_best(runs, protocol)
    if not len(ends) or np.isnan(scores).all():
        return None
    return BestCurve(protocol.title, ends.tolist(), scores.tolist())


def _read_curve(path: Path, name: str) -> dict[float, float]:
    """Return scores by the end of their bucket; {} if they cannot be read."""
    try:
        series = read_series(path, [name, _BUCKET_ENDS], limit=None)
    except UnreadableError:
        return {}
    return bucket_scores(series.get(name, EMPTY), series.get(_BUCKET_ENDS, EMPTY))
