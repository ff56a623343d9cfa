"""Training curves of sweeps as in the LASER paper (appendix A.3).

The order matters: average the episodes of a bucket, normalise, take the median over tasks, average buckets into points
if the protocol says so, and only then take the best member of a sweep at each point. Taking the best earlier would pick
lucky episodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from laser.scoring.scores import find_reference

ATARI_BUCKET = 1_000_000
DMLAB_BUCKET = 10_000_000


@dataclass(frozen=True)
class CurveProtocol:
    """Reduction of buckets to one curve.

    Args:
        score: name of a member's score in a bucket, among the recorded `buckets/...`.
        over_tasks: reduction over an agent's tasks, if each task has a run of its own; None: not possible.
        downsampling: number of buckets averaged into a point, after that.
    """

    score: str
    over_tasks: Literal["median", "mean"] | None = None
    downsampling: int = 1

    @property
    def title(self) -> str:
        """Name of the curve's score, in words."""
        return self.score.replace("_", " ")


OverTasks = Literal["median", "mean_capped"]
_SCORES: dict[OverTasks, CurveProtocol] = {
    "median": CurveProtocol("normalised_median", "median"),
    "mean_capped": CurveProtocol("normalised_mean_capped", "mean"),
}
_PLAIN = CurveProtocol("mean_return")
_DMLAB_DOWNSAMPLING = 10  # points of 100M frames


def protocol_for(tasks: Sequence[str], over_tasks: OverTasks = "median") -> CurveProtocol:
    """Return the curve protocol of tasks: that of DeepMind Lab for its levels, else that of Atari.

    If a task has no reference scores, the curve is of plain returns.

    Args:
        tasks: ids of all tasks.
        over_tasks: the paper's median of the normalised scores, or the mean of those capped at 1.
    """
    if not tasks or any(find_reference(task) is None for task in tasks):
        return _PLAIN
    protocol = _SCORES[over_tasks]
    is_dmlab = all(task.startswith("dmlab/") for task in tasks)
    return replace(protocol, downsampling=_DMLAB_DOWNSAMPLING) if is_dmlab else protocol


@dataclass(frozen=True)
class BucketScores:
    """Scores of one run, bucket by bucket.

    Args:
        agent: key of the agent; the runs of one agent differ only in their tasks.
        scores: score by the end of the bucket; a bucket without finished episodes may be left out.
    """

    agent: Hashable
    scores: Mapping[float, float]


def point_wise_best(runs: Sequence[BucketScores], protocol: CurveProtocol) -> tuple[np.ndarray, np.ndarray]:
    """Return the best agent's score at each point.

    Args:
        runs: runs of any number of agents.
        protocol: see `CurveProtocol`.

    Returns:
        ends of the points [N] and the best scores [N], NaN until an agent has scores of all its tasks. No points if
        agents have several runs and the protocol has no reduction over tasks.
    """
    by_agent: defaultdict[Hashable, list[Mapping[float, float]]] = defaultdict(list)
    for run in runs:
        if run.scores:
            by_agent[run.agent].append(run.scores)
    ends = sorted(set().union(*(run.scores for run in runs)))
    num_points = len(ends) // protocol.downsampling
    if not num_points or (protocol.over_tasks is None and any(len(tasks) > 1 for tasks in by_agent.values())):
        return np.zeros(0), np.zeros(0)
    over_tasks = np.mean if protocol.over_tasks == "mean" else np.median
    curves = []
    for tasks in by_agent.values():
        score = over_tasks([_carried_on(scores, ends) for scores in tasks], axis=0)
        used = score[: num_points * protocol.downsampling]
        curves.append(used.reshape(num_points, protocol.downsampling).mean(axis=1))
    known = np.where(np.isnan(curves), -np.inf, curves).max(axis=0)
    return np.array(ends[protocol.downsampling - 1 :: protocol.downsampling]), np.where(np.isinf(known), np.nan, known)


def _carried_on(scores: Mapping[float, float], ends: Sequence[float]) -> list[float]:
    """Return the score at each end; without a score, the one before."""
    row, newest = [], float("nan")
    for end in ends:
        newest = scores.get(end, newest)
        row.append(newest)
    return row
