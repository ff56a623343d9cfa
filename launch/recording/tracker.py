"""Trackers: receivers of metrics besides `metrics.db` (TensorBoard, Weights & Biases, Prometheus), one interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from launch.recording.metric_table import metric_of


class Tracker(Protocol):
    """Receives the numbers of one run. Used from one thread at a time; never blocks for long."""

    num_dropped: int
    """Rows and videos that were dropped, since the receiving program is too slow or has ended."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Record finite values by key at a global step (env steps).

        Raises:
            OutputError: a file in the run's directory cannot be written.
        """

    def video(self, step: int, path: Path) -> None:
        """Record a video of the policy at a global step."""

    def forget_after(self, step: int) -> None:
        """Discard everything recorded after `step`, from which a resumed run continues, as far as possible."""

    def close(self) -> None:
        """Finish, in a few seconds at most."""


def tracking_key(name: str) -> str:
    """Return a metric's key in TensorBoard and Weights & Biases: the one that CleanRL's users know.

    A metric of the algorithm is under `losses/`, any other under its own name, except for `Metric.tracked_as`.
    """
    metric = metric_of(name)
    if metric is not None and metric.tracked_as:
        return metric.tracked_as
    return name if "/" in name else f"losses/{name}"


def prometheus_name(key: str) -> str:
    """Return a tracking key's name in Prometheus, e.g. `ray_laser_charts_sps`: Ray uses lower case."""
    return "ray_laser_" + re.sub(r"[^a-z0-9_]", "_", key.lower())
