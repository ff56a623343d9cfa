"""A run of LASER, and one number of it, such as the mean return that it ended with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import measure
import numpy as np

from launch.records.metrics_db import read_series
from launch.reproductions.outcomes import in_force

LAST = 0.2
"""Share of the env steps that counts as a run's last part."""


def train(words: Sequence[str], steps: int, seed: int) -> dict[str, Any]:
    """Return the final return of a run, `value`, and its `seconds`.

    Args:
        words: arguments of `laser train`.
        steps: env steps.
        seed: of the run.
    """
    return measured_run(words, steps, seed, lambda database: last_mean(database, "charts/mean_return", steps))


def measured_run(
    words: Sequence[str], steps: int, seed: int, value: Callable[[Path], float], python_path: Path | str = ""
) -> dict[str, Any]:
    """Return a number of a run, `value`, and its `seconds`.

    Args:
        words: arguments of `laser train`.
        steps: env steps.
        seed: of the run.
        value: reads the number from the run's `metrics.db`.
        python_path: folder of modules that the arguments name.
    """
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "run"
        command = [*measure.LASER, "train", *words, "--steps", steps, "--seed", seed, "--run-dir", run_dir]
        result = measure.run_json([*command, "--quiet", "--json"], 3600.0, python_path)
        return {"value": round(value(run_dir / "metrics.db"), 3), "seconds": round(result["seconds"], 1)}


def last_mean(database: Path, name: str, steps: int) -> float:
    """Return the mean of a metric over the last part of a run of `steps` env steps."""
    return float(in_force(read_series(database, name), np.linspace((1 - LAST) * steps, steps, 20)).mean())
