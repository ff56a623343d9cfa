"""A run's numbers as Prometheus metrics, which every node of a Ray cluster exports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import launch.runtimes.ray_settings  # noqa: F401 - Ray reads these settings at its import

# isort: split
from ray.util.metrics import Gauge

from launch.recording.tracker import prometheus_name


class RayMetrics:
    """Sets a gauge for every key (see `launch.recording.tracker.Tracker`). Used from one thread at a time.

    Gauges belong to the process, so the runs of a sweep share one gauge for each key and differ in the tag `run`.

    Args:
        run: value of the tag.
    """

    num_dropped = 0
    _gauges: dict[str, Gauge] = {}  # noqa: RUF012 - Ray requires one gauge for each name in the whole process

    def __init__(self, run: str):
        self._tags = MappingProxyType({"run": run})

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Set the gauges, and `global_step`."""
        for key, value in {**values, "global_step": float(step)}.items():
            if math.isfinite(value):
                self._gauge(key).set(value, tags=dict(self._tags))

    def video(self, step: int, path: Path) -> None:
        """Do nothing: Prometheus has no pictures."""

    def forget_after(self, step: int) -> None:
        """Do nothing: a gauge has only its newest value."""

    def close(self) -> None:
        """Do nothing: the node drops the gauges of ended processes."""

    def _gauge(self, key: str) -> Gauge:
        name = prometheus_name(key).removeprefix("ray_")  # Ray puts this prefix before every name
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, description=key, tag_keys=("run",))
        return self._gauges[name]
