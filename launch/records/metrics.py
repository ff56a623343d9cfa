"""A run's metrics as arrays, for users' own programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from laser.config import ConfigError, Problem
from launch.records.metrics_db import Axis, read_names, read_series
from launch.records.run_directory import RunDirectory
from launch.settings.values import nearest


def metric_names(run_dir: str | Path) -> list[str]:
    """Return the names of everything that a run has recorded, sorted; docs/metrics.md says what they are.

    Raises:
        OutputError: the run's `metrics.db` is missing or damaged.
    """
    return read_names(_path(run_dir))


def read_metric(
    run_dir: str | Path, name: str = "charts/mean_return", axis: Axis = "env_steps"
) -> tuple[np.ndarray, np.ndarray]:
    """Return one metric of a run as two arrays, float64 [N]: where it was recorded, and its values.

    A value holds until the next one; equal values in a row are recorded once, except for those of evaluations.

    Args:
        run_dir: the directory of a run, or of a member of a sweep. It may still be training.
        name: one of `metric_names`.
        axis: what the first array holds: "env_steps", "frames", "learner_steps", "seconds" of training, or "wall_time"
            (unix time).

    Raises:
        OutputError: the run's `metrics.db` is missing or damaged.
        ConfigError: the run has no such metric.
    """
    names = metric_names(run_dir)
    if name not in names:
        best = nearest(name, names)
        remedy = f"did you mean {best}?" if best else "laser.metric_names(run_dir) lists them"
        raise ConfigError([Problem("name", f"{run_dir} has recorded no {name!r}", remedy)])
    points = np.array(read_series(_path(run_dir), name, axis), np.float64).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def _path(run_dir: str | Path) -> Path:
    return RunDirectory(Path(run_dir), False).metrics_path
