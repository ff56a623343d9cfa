"""Training curves as the paper draws them (appendix A.3).

The order matters: average the episodes of a bucket, normalise, take the median over tasks, average buckets together
where asked for, and only then take the best member of a sweep at each point. Taking the best earlier would pick lucky
episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from laser.evaluation.scores import Reference

ATARI_BUCKET = 1_000_000
DMLAB_BUCKET = 10_000_000
DMLAB_DOWNSAMPLING = 10  # to 100M


@dataclass(frozen=True)
class Episodes:
    """Episodes of one member on one task.

    Args:
        ended_at: [E] how far the member was when each ended, in the unit of the buckets (frames or env steps).
        returns: [E] undiscounted, unclipped.
    """

    ended_at: np.ndarray
    returns: np.ndarray


@dataclass(frozen=True)
class SweepCurve:
    """What a sweep reached, bucket by bucket; NaN where nothing is known yet.

    Args:
        ends: [num_points] where each point's buckets end.
        members: [num_members, num_points] score of each member.
        best: [num_points] the best of them, point by point.
    """

    ends: np.ndarray
    members: np.ndarray
    best: np.ndarray


def bucket_means(episodes: Episodes, width: int, num_buckets: int) -> np.ndarray:
    """Return the mean return of the episodes that ended in each bucket (0, width], (width, 2 width], ... [num_buckets].

    A bucket in which no episode ended repeats the one before: long episodes leave gaps. Before the first it is NaN.
    """
    bucket = np.maximum(np.ceil(episodes.ended_at / width).astype(np.int64) - 1, 0)
    inside = bucket < num_buckets
    counts = np.bincount(bucket[inside], minlength=num_buckets)
    sums = np.bincount(bucket[inside], episodes.returns[inside], num_buckets)
    means = np.divide(sums, counts, out=np.full(num_buckets, np.nan), where=counts > 0)
    newest = np.maximum.accumulate(np.where(counts > 0, np.arange(num_buckets), -1))
    return np.where(newest >= 0, means[newest], np.nan)


def sweep_curve(
    members: Sequence[Mapping[str, Episodes]],
    references: Mapping[str, Reference],
    width: int,
    num_buckets: int,
    downsampling: int = 1,
    over_tasks: Literal["median", "mean capped"] = "median",
) -> SweepCurve:
    """Return the curve of every member and the point-wise best of the sweep.

    Args:
        members: for each member, its episodes by task; all have the same tasks.
        references: by task.
        width: of a bucket.
        num_buckets: how many buckets; a multiple of `downsampling`.
        downsampling: how many buckets are averaged into a point, after the median over tasks.
        over_tasks: how tasks become one score.
    """
    if num_buckets % downsampling:
        raise ValueError(f"num_buckets must be a multiple of downsampling ({downsampling}), got {num_buckets}")
    curves = []
    for tasks in members:
        by_task = np.stack(
            [
                (bucket_means(episodes, width, num_buckets) - references[task].random)
                / (references[task].human - references[task].random)
                for task, episodes in tasks.items()
            ]
        )
        score = np.median(by_task, axis=0) if over_tasks == "median" else np.minimum(by_task, 1.0).mean(axis=0)
        curves.append(score.reshape(-1, downsampling).mean(axis=1))
    ends = width * downsampling * np.arange(1, num_buckets // downsampling + 1)
    return SweepCurve(ends, np.stack(curves), point_wise_best(np.stack(curves)))


def point_wise_best(curves: np.ndarray) -> np.ndarray:
    """Return the best member's score at each point; curves [num_members, num_points] may hold NaN for unknown."""
    known = np.where(np.isnan(curves), -np.inf, curves).max(axis=0)
    best: np.ndarray = np.where(np.isinf(known), np.nan, known)
    return best
