"""Points of a learning curve, from the returns that a run recorded; what did not change is not recorded again."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

NUM_POINTS, LAST = 20, 0.1


def curve(returns: Sequence[tuple[float, float]], steps: int, ended_at: int) -> list[tuple[float, float]]:
    """Return points of a run: env steps, and the mean return since the point before.

    There are `NUM_POINTS` over all env steps, less those before any return and those that begin after the run's end.

    Args:
        returns: (env steps, return).
        steps: env steps that the run was to have.
        ended_at: env steps that it had.
    """
    ends = [steps * index / NUM_POINTS for index in range(NUM_POINTS + 1)]
    points = [(end, mean_between(returns, begin, end)) for begin, end in itertools.pairwise(ends) if begin < ended_at]
    return [(at, round(value, 3)) for at, value in points if value is not None]


def final(returns: Sequence[tuple[float, float]], steps: int) -> float | None:
    """Return the mean of the returns in the last tenth of the env steps; None without any in the run."""
    return mean_between(returns, (1 - LAST) * steps, 2 * steps)


def mean_between(points: Sequence[tuple[float, float]], begin: float, end: float) -> float | None:
    """Return the mean of the values whose axis is in (begin, end], or the last one before; None without any."""
    values = [value for at, value in points if begin < at <= end] or [value for at, value in points if at <= end][-1:]
    return statistics.fmean(values) if values else None
