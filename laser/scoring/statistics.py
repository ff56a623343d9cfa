"""Robust means and confidence intervals, for few runs on several tasks.

Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice".
"""

from __future__ import annotations

from collections.abc import Callable

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
