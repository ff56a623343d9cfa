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

LEAST_SEEDS = 3
"""Fewest seeds with an interval: that of two seeds is nine times as wide as their distance, and says nothing."""

_NORMAL_QUANTILE = 1.959964
# Student's t at 97.5 % for 1 to 10 degrees of freedom; beyond, a series around the normal quantile is exact to 2e-4.
_T_QUANTILES = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


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


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and half the width of its 95 % interval by Student's t; infinite for one value."""
    if len(values) < 2:
        return float(values[0]), math.inf
    return statistics.fmean(values), t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def t_quantile(freedom: int) -> float:
    """Return Student's t at 97.5 %, so that 95 % lie between it and its negative.

    Args:
        freedom: degrees of freedom, at least 1.

    Source: Abramowitz and Stegun 1964, 26.7.5, from 11 degrees of freedom on.
    """
    if freedom <= len(_T_QUANTILES):
        return _T_QUANTILES[freedom - 1]
    z = _NORMAL_QUANTILE
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def share_interval(num_wins: float, num: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; ties may count as half a win.

    It has a width even where every comparison has the same outcome, as with few runs.

    Args:
        num_wins: outcomes that count, at most `num`.
        num: comparisons, at least 1.
    """
    share, squared = num_wins / num, _NORMAL_QUANTILE**2 / num
    middle = (share + squared / 2.0) / (1.0 + squared)
    half = _NORMAL_QUANTILE / (1.0 + squared) * math.sqrt(share * (1.0 - share) / num + squared / (4.0 * num))
    return max(0.0, middle - half), min(1.0, middle + half)
