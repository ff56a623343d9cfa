"""A run of LASER, and the mean return that it ended with."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import measure
import numpy as np

from launch.records.metrics_db import read_series
from launch.reproductions.outcomes import in_force

LAST = 0.2
"""Share of the env steps whose mean return is the final one."""


def train(words: Sequence[str], steps: int, seed: int) -> dict[str, Any]:
    """Return the final return of a run, `value`, and its `seconds`.

    Args:
        words: arguments of `laser train`.
        steps: env steps.
        seed: of the run.
    """
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "run"
        command = [*measure.LASER, "train", *words, "--steps", steps, "--seed", seed, "--run-dir", run_dir]
        result = measure.run_json([*command, "--quiet", "--json"], timeout_s=3600.0)
        returns = read_series(run_dir / "metrics.db", "charts/mean_return")
    last = in_force(returns, np.linspace((1 - LAST) * steps, steps, 20))
    return {"value": round(float(last.mean()), 3), "seconds": round(result["seconds"], 1)}
