"""A run's metrics as arrays, for users' own programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from laser.config import ConfigError, Problem
from launch.records.exchange import COUNTS
from launch.records.exchange_reader import MOMENT, read_exchange_rows
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


def read_exchange(run_dir: str | Path, axis: Axis = "env_steps") -> dict[str, np.ndarray]:
    """Return whose experience a member of a sweep with a shared replay learned from, as columns, [N] each.

    A row stands for what was drawn of one maker since the maker's row before; the sums of the rows are those of the
    run. A learner that has drawn no other member's experience has no rows.

    Args:
        run_dir: the directory of a member. It may still be training.
        axis: as in `read_metric`.

    Returns:
        `axis`, "maker" (the member's number), and "steps" drawn; and where the algorithm counts them: "accepted" steps,
        and sums over the steps drawn of "abs_log_rho" (|log pi - log mu|, nats), "kl" (KL(pi || implied policy), nats)
        and "lag" (newer parameter versions of the maker). NaN where a row lacks a number.

    Raises:
        OutputError: the run's `metrics.db` is missing or damaged.
    """
    rows = list(read_exchange_rows(_path(run_dir)))
    columns: dict[str, list[float]] = {axis: [moment[MOMENT.index(axis)] for moment, _, _ in rows]}
    columns["maker"] = [maker for _, maker, _ in rows]
    for name in COUNTS:
        if name == "steps" or any(name in counts for _, _, counts in rows):
            columns[name] = [counts.get(name, np.nan) for _, _, counts in rows]
    return {name: np.array(values, np.int64 if name == "maker" else np.float64) for name, values in columns.items()}


def _path(run_dir: str | Path) -> Path:
    return RunDirectory(Path(run_dir), False).metrics_path
