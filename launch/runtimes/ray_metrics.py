"""A run's numbers as Prometheus metrics, which every node of a Ray cluster exports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import launch.runtimes.ray_settings  # noqa: F401 - read by Ray when it is imported

# isort: split
from ray.util.metrics import Gauge

from launch.recording.tracker import prometheus_name


class RayMetrics:
    """Sets a gauge for every key (see `launch.recording.tracker.Tracker`). Used from one thread at a time.

    Gauges belong to the process, so the runs of a sweep share one by key and are told apart by the tag `run`.

    Args:
        run: the tag.
    """

    num_dropped = 0
    _gauges: dict[str, Gauge] = {}  # noqa: RUF012 - one by name in the whole process, as Ray wants it

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
        """Do nothing: a gauge is its newest value."""

    def close(self) -> None:
        """Do nothing: the node forgets gauges of processes that have ended."""

    def _gauge(self, key: str) -> Gauge:
        name = prometheus_name(key).removeprefix("ray_")  # Ray puts it before every name
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, description=key, tag_keys=("run",))
        return self._gauges[name]
