"""Quantiles of plain and of weighted numbers: always a value that occurred, never one in between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
"""Quantile levels of metrics, by the last part of their keys."""

WITH_LARGEST = {**QUANTILES, "max": 1.0}


def quantiles(values: np.ndarray, levels: Sequence[float], weights: np.ndarray | None = None) -> np.ndarray:
    """Return the smallest values at or below which at least these shares of the weight lie, [levels].

    The results equal NumPy's quantiles with `method="inverted_cdf"`, which take several times as long.

    Args:
        values: [N], at least one.
        levels: in [0, 1].
        weights: [N], positive; by default equal.
    """
    # Rounding must not lead past the value at which a share is reached.
    shares = np.array(levels) * (1.0 - 1e-12)
    if weights is None:
        ordered = np.sort(values)
        places = np.maximum(np.ceil(shares * values.size).astype(np.int64) - 1, 0)
    else:
        order = np.argsort(values)
        ordered, cumulated = values[order], np.cumsum(weights[order])
        places = np.searchsorted(cumulated, shares * cumulated[-1])
    found: np.ndarray = ordered[places]
    return found


def named_quantiles(
    name: str, values: np.ndarray, levels: dict[str, float] = QUANTILES, weights: np.ndarray | None = None
) -> dict[str, float]:
    """Return quantiles as metrics `NAME/p10` and so on.

    Args:
        name: of the metric, without the level.
        values: [N], at least one.
        levels: quantile levels by name.
        weights: [N], positive; by default equal.
    """
    found = quantiles(values, list(levels.values()), weights)
    return {f"{name}/{level}": float(value) for level, value in zip(levels, found, strict=True)}
