"""Robust means and confidence intervals, for few runs on several tasks.

Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

# A function that reduces the last two axes, [..., num_runs, num_tasks].
Statistic = Callable[[np.ndarray], np.ndarray]


def mean(scores: np.ndarray) -> np.ndarray:
    """Return the mean over runs and tasks [..., num_runs, num_tasks]."""
    result: np.ndarray = scores.mean(axis=(-2, -1))
    return result


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Return the mean of the middle half of all scores [..., num_runs, num_tasks].

    A quarter of the scores, rounded down, is left out at each end.
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    result: np.ndarray = flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)
    return result


def median_over_tasks(scores: np.ndarray) -> np.ndarray:
    """Return the median over tasks of the mean over runs [..., num_runs, num_tasks]."""
    result: np.ndarray = np.median(scores.mean(axis=-2), axis=-1)
    return result


def mean_capped(scores: np.ndarray) -> np.ndarray:
    """Return the mean over tasks of the mean over runs, each task capped at 1 [..., num_runs, num_tasks]."""
    result: np.ndarray = np.minimum(scores.mean(axis=-2), 1.0).mean(axis=-1)
    return result


def bootstrap_interval(
    scores: np.ndarray,
    statistic: Statistic,
    generator: np.random.Generator,
    level: float = 0.95,
    num_resamples: int = 2000,
) -> tuple[float, float]:
    """Return the percentile interval of a statistic under stratified bootstrap: runs are resampled within each task.

    Args:
        scores: [num_runs, num_tasks]; episodes of one agent are runs of one task.
        statistic: function that reduces the last two axes.
        generator: source of randomness.
        level: coverage of the interval.
        num_resamples: number of resamples.

    Returns:
        lower and upper end of the interval.
    """
    num_runs, num_tasks = scores.shape
    who = generator.integers(0, num_runs, (num_resamples, num_runs, num_tasks))
    values = statistic(np.take_along_axis(scores[None], who, axis=1))
    low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


# Two-sided 95 % points of Student's t by degrees of freedom.
_T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
_Z_95 = 1.96


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and half the width of its 95 % interval by Student's t; infinite for one value."""
    if len(values) < 2:
        return float(values[0]), math.inf
    free = len(values) - 1
    # From ten on two terms of the expansion in 1 / degrees of freedom are right to 0.003.
    point = _T_95.get(free, _Z_95 + 2.372 / free + 2.823 / free**2)
    return statistics.fmean(values), point * statistics.stdev(values) / math.sqrt(len(values))


def share_interval(num_wins: float, num: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; ties may count as half a win.

    It has a width even where every comparison has the same outcome, as with few runs.

    Args:
        num_wins: outcomes that count, at most `num`.
        num: comparisons, at least 1.
    """
    share, squared = num_wins / num, _Z_95**2 / num
    middle = (share + squared / 2.0) / (1.0 + squared)
    half = _Z_95 / (1.0 + squared) * math.sqrt(share * (1.0 - share) / num + squared / (4.0 * num))
    return max(0.0, middle - half), min(1.0, middle + half)
