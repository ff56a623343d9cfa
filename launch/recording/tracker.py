"""Where numbers go besides `metrics.db`: TensorBoard, Weights & Biases, Prometheus, all behind one interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from launch.recording.metric_table import metric_of


class Tracker(Protocol):
    """Takes the numbers of one run. Used from one thread at a time; never blocks for long."""

    num_dropped: int
    """Rows and videos that were not taken, since whoever takes them is too slow or gone."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Take finite values by key at a global step (env steps).

        Raises:
            OutputError: it is a file of the run's own that cannot be written.
        """

    def video(self, step: int, path: Path) -> None:
        """Take a video of the policy at a global step."""

    def forget_after(self, step: int) -> None:
        """Hear that the run goes on from `step`: what was written beyond it is void."""

    def close(self) -> None:
        """Finish; takes a few seconds at most."""


def tracking_key(name: str) -> str:
    """Return a metric's key in TensorBoard and Weights & Biases: what CleanRL's users look for.

    A metric of the algorithm is under `losses/`, anything else under its own name, except for `Metric.tracked_as`.
    """
    metric = metric_of(name)
    if metric is not None and metric.tracked_as:
        return metric.tracked_as
    return name if "/" in name else f"losses/{name}"


def prometheus_name(key: str) -> str:
    """Return a tracking key's name in Prometheus, e.g. `ray_laser_charts_sps`: Ray makes letters small."""
    return "ray_laser_" + re.sub(r"[^a-z0-9_]", "_", key.lower())
