"""Computations on curves before they are drawn: rates, ratios, smoothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from launch.records.series import Series


def smooth(values: np.ndarray, half_width: int) -> np.ndarray:
    """Return at each point the straight line through it and up to `half_width` neighbours on both sides, without NaN.

    Where all neighbours are known this is their mean. At the ends, where neighbours are on one side only, a mean would
    lag behind a curve that rises; a line does not.

    Args:
        values: [N] values of the curve.
        half_width: neighbours on each side.
    """
    if half_width <= 0 or len(values) < 2:
        return values
    known = np.isfinite(values)
    place = np.arange(len(values), dtype=float)
    level = values[known].mean() if known.any() else 0.0  # sums of small numbers lose fewer digits
    y = np.where(known, values - level, 0.0)
    x = np.where(known, place, 0.0)
    first = np.maximum(place - half_width, 0).astype(int)
    last = np.minimum(place + half_width + 1, len(values)).astype(int)

    def summed(each: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0.0], np.cumsum(each)])
        found: np.ndarray = sums[last] - sums[first]
        return found

    number = summed(known)
    n = np.maximum(number, 1)
    mean_x, mean_y = summed(x) / n, summed(y) / n
    spread = summed(x * x) / n - mean_x**2
    slope = (summed(x * y) / n - mean_x * mean_y) / np.where(spread > 1e-9, spread, np.inf)
    return np.where(number > 0, level + mean_y + slope * (place - mean_x), np.nan)


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


def bucket_scores(scores: Series, ends: Series) -> dict[float, float]:
    """Return a run's scores by the frame at which their bucket ended; buckets without a score are left out.

    Args:
        scores: score of the last complete bucket, as recorded over time.
        ends: frame at which that bucket ended.
    """
    pairs = zip(ends.values.tolist(), carried(scores, ends.ticks).tolist(), strict=True)
    return {end: score for end, score in pairs if score == score}
