"""Computations on curves before they are drawn: rates, ratios, smoothing, a band over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from launch.records.series import Series


def smooth(values: np.ndarray, half_width: int) -> np.ndarray:
    """Return the mean over each point and up to `half_width` neighbours on both sides, without NaN.

    The result does not lag behind, as with exponential smoothing. At the ends the window is shorter.

    Args:
        values: [N] values of the curve.
        half_width: neighbours on each side.
    """
    if half_width <= 0 or len(values) < 2:
        return values
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    place = np.arange(len(values))
    first, last = np.maximum(place - half_width, 0), np.minimum(place + half_width + 1, len(values))
    number = counts[last] - counts[first]
    return np.where(number > 0, (sums[last] - sums[first]) / np.maximum(number, 1), np.nan)


def carried(series: Series, ticks: np.ndarray) -> np.ndarray:
    """Return a series' newest value at each of other ticks; NaN before its first.

    Args:
        series: a series of any length.
        ticks: int64 [N] ticks of the result.
    """
    if not len(series):
        return np.full(len(ticks), np.nan)
    place = np.searchsorted(series.ticks, ticks, side="right") - 1
    return np.where(place >= 0, series.values[np.maximum(place, 0)], np.nan)


def rate(counter: Series) -> Series:
    """Return a counter's growth per second of training; a restart becomes a gap."""
    if len(counter) < 2:
        return Series(counter.ticks[:0], counter.values[:0], {name: x[:0] for name, x in counter.axes.items()})
    spans = np.diff(counter.axes["seconds"])
    growth = np.diff(counter.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where((spans > 0) & (growth >= 0), growth / spans, np.nan)
    return Series(counter.ticks[1:], values, {name: x[1:] for name, x in counter.axes.items()})


def growth_ratio(part: Series, whole: Sequence[Series]) -> Series:
    """Return the growth of one counter divided by the summed growth of several, point by point.

    Args:
        part: the counter in the numerator; the result has its ticks.
        whole: the counters in the denominator.
    """
    if len(part) < 2:
        return Series(part.ticks[:0], part.values[:0], {name: x[:0] for name, x in part.axes.items()})
    below = np.diff(sum(np.nan_to_num(carried(series, part.ticks)) for series in whole))
    above = np.diff(part.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(below > 0, above / below, np.nan)
    return Series(part.ticks[1:], values, {name: x[1:] for name, x in part.axes.items()})


def band_over_runs(
    curves: Sequence[tuple[np.ndarray, np.ndarray]], num: int = 400
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and band (one standard deviation) of several curves, over the x where all are known.

    Elsewhere the mean would jump.

    Args:
        curves: (x [N], y [N]) of each curve, x ascending.
        num: points of the result.

    Returns:
        x, mean, low, high, each [num]; all empty without a curve.
    """
    known = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in curves]
    known = [(x, y) for x, y in known if len(x)]
    if not known:
        return (np.zeros(0),) * 4
    low, high = max(x[0] for x, _ in known), min(x[-1] for x, _ in known)
    if high <= low:
        low, high = min(x[0] for x, _ in known), max(x[-1] for x, _ in known)
    grid = np.linspace(low, high, num)
    rows = np.stack([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in known])
    there = np.isfinite(rows)
    count = there.sum(0)
    mean = np.where(count > 0, np.where(there, rows, 0.0).sum(0) / np.maximum(count, 1), np.nan)
    spread = np.sqrt(np.where(there, (rows - mean) ** 2, 0.0).sum(0) / np.maximum(count - 1, 1))
    return grid, mean, mean - spread, mean + spread


def bucket_scores(scores: Series, ends: Series) -> dict[float, float]:
    """Return a run's scores by the frame at which their bucket ended; buckets without a score are left out.

    Args:
        scores: score of the last complete bucket, as recorded over time.
        ends: frame at which that bucket ended.
    """
    pairs = zip(ends.values.tolist(), carried(scores, ends.ticks).tolist(), strict=True)
    return {end: score for end, score in pairs if score == score}
