"""What an evaluation of a whole sweep found: every member, the best of them, and the best at every point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laser.evaluation.protocols import point_wise_best
from launch.errors import OutputError
from launch.evaluation.evaluation_result import EvaluationResult
from launch.recording.metrics_db import read_names, read_series
from launch.sweeps.agents_compared import AgentsCompared, compare_agents

# The score of a bucket: over tasks as in the paper where references are known, else plain returns.
_CURVES = ("buckets/normalised_median", "buckets/mean_return")


@dataclass(frozen=True)
class MemberEvaluation:
    """One member: what set it apart, and what it reached, or why it could not play."""

    number: int
    overrides: dict[str, str]
    result: EvaluationResult | None
    error: str = ""

    @property
    def score(self) -> float:
        """What members are ranked by: median normalised score over tasks if there is one, else mean return."""
        if self.result is None:
            return -math.inf
        return self.result.summary["median"][0] if self.result.summary else self.result.mean_return


@dataclass(frozen=True)
class BestCurve:
    """The point-wise best of a sweep while it trained: `scores` at `ends` (frames); `name` says of what."""

    name: str
    ends: list[float]
    scores: list[float]

    def words(self) -> str:
        """Return its last point."""
        of = self.name.removeprefix("buckets/").replace("_", " ")
        return f"point-wise best while training, {of}: {self.scores[-1]:,.3f} at {self.ends[-1]:,.0f} frames per member"


@dataclass(frozen=True)
class SweepEvaluation:
    """What the members of a sweep reached, each with the same episodes.

    Args:
        run_dir: of the sweep.
        members: in the order of their numbers; at least one could play.
        curve: None where no bucket was completed.
    """

    run_dir: Path
    members: list[MemberEvaluation]
    curve: BestCurve | None

    @property
    def best(self) -> MemberEvaluation:
        """The member with the highest score."""
        return max(self.members, key=lambda member: member.score)

    @property
    def agents(self) -> AgentsCompared | None:
        """Its settings over games and seeds, where there are several of either."""
        return compare_agents((each.overrides, each.result) for each in self.members if each.result is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        agents = self.agents
        played = [member.result for member in self.members if member.result is not None]
        return {
            "run_dir": str(self.run_dir),
            "mean_return": float(np.mean([result.mean_return for result in played])),
            "best_return": self.best.result.mean_return if self.best.result else None,
            "best_member": self.best.number,
            "episodes": sum(len(result.returns) for result in played),
            "best_curve": None if self.curve is None else vars(self.curve),
            "agents": None if agents is None else agents.to_json(),
            "members": [
                {"member": member.number, "overrides": member.overrides}
                | ({"error": member.error} if member.result is None else member.result.to_json())
                for member in self.members
            ],
        }

    def words(self) -> str:
        """Return what `laser eval` prints."""
        rows = [("member", "mean return", "95 % interval", "normalised", "settings")]
        for member in sorted(self.members, key=lambda member: -member.score):
            settings = ", ".join(f"{key}={value}" for key, value in member.overrides.items())
            if member.result is None:
                rows.append((str(member.number), "none", "", "", f"{settings}  ({member.error})"))
                continue
            tasks, summary = member.result.tasks, member.result.summary
            around = f"{tasks[0].interval[0]:,.1f} to {tasks[0].interval[1]:,.1f}" if len(tasks) == 1 else ""
            normalised = ""
            if summary is not None:
                score, (low, high) = summary["median"]
                normalised = f"{score:.3f} ({low:.3f} to {high:.3f})"
            rows.append((str(member.number), f"{member.result.mean_return:,.2f}", around, normalised, settings))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
        lines.append(f"best: member {self.best.number} (chosen by these episodes; {self.run_dir}/members)")
        if len(self.members) > 1 and self.best.result is not None:
            lines.append(self.best.result.words())
        agents = self.agents
        if agents is not None:
            lines += agents.lines()
        if self.curve is not None:
            lines.append(self.curve.words())
        return "\n".join(lines)


def read_best_curve(metrics: Sequence[Path]) -> BestCurve | None:
    """Return the point-wise best over members of what their runs recorded bucket by bucket, or None where nothing was.

    A member without a bucket of its own at some point keeps the one before.
    """
    paths = [path for path in metrics if path.is_file()]
    for name in _CURVES:
        curves = [curve for curve in (_read_curve(path, name) for path in paths) if curve]
        if not curves:
            continue
        ends = sorted(set().union(*curves))
        scores = np.full((len(curves), len(ends)), np.nan)
        for row, curve in zip(scores, curves, strict=True):
            newest = math.nan
            for place, end in enumerate(ends):
                newest = curve.get(end, newest)
                row[place] = newest
        return BestCurve(name, ends, point_wise_best(scores).tolist())
    return None


def _read_curve(path: Path, name: str) -> dict[float, float]:
    """Return scores by the end of their bucket. A point equal to the one before is not stored: it is carried on."""
    try:
        if name not in read_names(path):
            return {}
        changes, ends = read_series(path, name), read_series(path, "buckets/ends_at")
    except OutputError:
        return {}
    curve: dict[float, float] = {}
    for at, end in ends:
        known = [value for when, value in changes if when <= at]
        if known:
            curve[end] = known[-1]
    return curve
