"""The step size over a run: constant, linear, cosine or piecewise, after a warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

Shape = Literal["constant", "linear", "cosine", "piecewise"]

_FIRST = 0.01  # of the step size, at the beginning of a warm-up: a step of 0 would waste an update


def step_size_factor(
    shape: Shape,
    progress: float,
    *,
    final: float = 0.0,
    warmup: float = 0.0,
    points: Sequence[tuple[float, float]] = (),
) -> float:
    """Return the share of the step size that holds at a moment of the run.

        constant     1
        linear       1 - (1 - final) p
        cosine       final + (1 - final) (1 + cos(pi p)) / 2
        piecewise    the factor of the last point that has been reached; 1 before the first

    with p the progress since the end of the warm-up, during which the share grows linearly to the shape's first value.

    Args:
        shape: of the decay.
        progress: share of the run's env steps, 0 at the start; beyond 1 it counts as 1.
        final: linear and cosine: the share at the end.
        warmup: share of the run that the warm-up takes.
        points: piecewise: (share of the run, factor), in order.
    """
    progress = min(1.0, max(0.0, progress))
    if progress < warmup:
        return max(_FIRST, progress / warmup)
    if shape == "constant":
        return 1.0
    if shape == "piecewise":
        return next((factor for begin, factor in reversed(points) if progress >= begin), 1.0)
    since = (progress - warmup) / (1.0 - warmup) if warmup < 1.0 else 1.0
    left = 1.0 - since if shape == "linear" else 0.5 * (1.0 + math.cos(math.pi * since))
    return final + (1.0 - final) * left


def read_points(text: str) -> tuple[tuple[float, float], ...]:
    """Return the points of "0.5:0.3,0.8:0.1": from half of the run on 0.3 of the step size, later 0.1.

    Raises:
        ValueError: "must be ..., got ...".
    """
    try:
        points = tuple((float(begin), float(factor)) for begin, factor in (part.split(":") for part in text.split(",")))
    except ValueError:
        points = ()
    begins = [begin for begin, _ in points]
    right = all(0.0 <= begin < 1.0 for begin in begins) and begins == sorted(set(begins))
    if not points or not right or not all(factor >= 0.0 and math.isfinite(factor) for _, factor in points):
        raise ValueError(f"must be shares of the run with factors, in order, such as 0.5:0.3,0.8:0.1, got {text!r}")
    return points
