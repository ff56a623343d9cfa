"""A run's summary, read and checked: its numbers may be anybody's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from launch.records.exchange import COUNTS
from launch.records.run_summary import Best, read_content
from launch.records.series import Latest, Series, moment_of

_TICK = ("seconds", "wall_time", "env_steps", "frames", "learner_steps")
_CURVE = ("seconds", "env_steps", "frames", "learner_steps")


@dataclass(frozen=True)
class Summarised:
    """The summary of a run.

    Args:
        latest: the newest numbers at the time of writing.
        is_current: `metrics.db` has not changed since.
        written_s: unix time of writing.
        curves: thin curves by name.
        whole: names of the curves that have all their points.
        exchange: what the run had drawn of each maker, as in `read_exchange_sums`; None: an older version wrote it.
    """

    latest: Latest
    is_current: bool
    written_s: float
    curves: dict[str, Series] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    exchange: dict[int, dict[str, float]] | None = None


def read_summary(metrics_path: Path) -> Summarised | None:
    """Return the summary beside a `metrics.db`; None if there is none, or it is damaged."""
    content, written_s, is_current = read_content(metrics_path)
    try:
        curves = {str(name): _curve(*points) for name, (_, points) in content["curves"].items()}
        whole = frozenset(str(name) for name, (width, _) in content["curves"].items() if width == 1)
        return Summarised(_latest(content), is_current, written_s, curves, whole, _exchange(content.get("exchange")))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _latest(content: Mapping[str, Any]) -> Latest:
    values = {str(name): float(value) for name, value in content["values"].items()}
    notes = {str(name): str(text) for name, text in content["notes"].items()}
    best = None if content["best"] is None else Best(float(content["best"][0]), int(content["best"][1]))
    if best is not None and not math.isfinite(best.mean_return):
        raise ValueError("best is not finite")
    return Latest(moment_of([content["tick"][name] for name in _TICK]), values, notes, best)


def _exchange(content: Mapping[str, Any] | None) -> dict[int, dict[str, float]] | None:
    if content is None:
        return None
    return {
        int(maker): {name: float(counts[name]) for name in COUNTS if name in counts}
        for maker, counts in content.items()
    }


def _curve(ticks: list[float], *columns: list[float]) -> Series:
    *axes, values = (np.array(column, np.float64) for column in columns)
    if any(each.shape != (len(ticks),) for each in (*axes, values)):
        raise ValueError("the columns of a curve differ in length")
    return Series(np.array(ticks, np.int64), values, dict(zip(_CURVE, axes, strict=True)))
