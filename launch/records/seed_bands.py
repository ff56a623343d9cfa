"""Curves of several seeds as one curve with a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from laser.scoring.statistics import LEAST_SEEDS, t_quantile

Band = Literal["interval", "iqm", "deviation", "range"]
"""The kinds of bands: the mean's 95 % interval; quartiles around the interquartile mean; one standard deviation around
the mean; least and greatest around the mean."""

BANDS: tuple[Band, ...] = get_args(Band)


MOST_POINTS = 400
"""Points of a band; fewer are enough where a picture has many curves."""


@dataclass(frozen=True)
class SeedBand:
    """Several seeds' curves as one.

    Args:
        x: [N] where all seeds are known.
        centre: [N].
        low: [N] lower edge of the band; None if there are too few seeds for it.
        high: [N] upper edge.
        rests: (x [M], y [M]) of the seeds that begin before `x` or go on after it: their mean would jump where a seed
            begins or ends.
    """

    x: np.ndarray
    centre: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    rests: list[tuple[np.ndarray, np.ndarray]]


def band_over_seeds(
    curves: Sequence[tuple[np.ndarray, np.ndarray]], band: Band, num: int = MOST_POINTS
) -> SeedBand | None:
    """Return centre and band of several seeds' curves; None if no curve has a value.

    Args:
        curves: (x [M], y [M]) of each seed, x ascending; NaN in y is left out.
        band: what the band shows.
        num: points of the result.
    """
    known = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in curves]
    known = [(x, y) for x, y in known if len(x)]
    if not known:
        return None
    begin, end = max(x[0] for x, _ in known), min(x[-1] for x, _ in known)
    if end < begin:  # no moment is known of all seeds
        nothing = np.zeros(0)
        return SeedBand(nothing, nothing, None, None, known)
    grid = np.linspace(begin, end, num) if end > begin else np.array([begin])
    rows = np.stack([np.interp(grid, x, y) for x, y in known])
    centre, low, high = _summary(rows, band)
    pieces = [(x[x <= begin], y[x <= begin]) for x, y in known] + [(x[x >= end], y[x >= end]) for x, y in known]
    return SeedBand(grid, centre, low, high, [(x, y) for x, y in pieces if len(x) > 1])


def _summary(rows: np.ndarray, band: Band) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return centre, low and high of seeds [K, N], each [N]."""
    number, centre = len(rows), rows.mean(0)
    if number < 2 or (band == "interval" and number < LEAST_SEEDS):
        return centre, None, None
    if band == "iqm":
        cut = number // 4
        low, high = np.quantile(rows, [0.25, 0.75], axis=0)
        return np.sort(rows, axis=0)[cut : number - cut].mean(0), low, high
    if band == "range":
        return centre, rows.min(0), rows.max(0)
    half = rows.std(0, ddof=1)
    if band == "interval":
        half = half * t_quantile(number - 1) / np.sqrt(number)
    return centre, centre - half, centre + half
