"""LASER: actor-critic agents that learn from a large experience replay which several agents may share.

    import laser

    config = laser.load_preset("cartpole", {"steps": 50_000, "algorithm.learning-rate": 1e-3})
    result = laser.train(config)
    laser.evaluate(result.run_dir, episodes=20)
    policy = laser.load_policy(result.run_dir)
    action = policy.act(observation)

This package also holds what all components share: records, specs, ports, maths, networks, algorithms, environments.
"""

from __future__ import annotations

import functools
import importlib
import runpy
from pathlib import Path
from typing import Any

# The Python API of the command line, imported on first use: `laser` lies below `launch` and does not import it, and a
# shard that imports `laser.unroll` must not load torch.
_API = {
    "train": "launch.train",
    "load_preset": "launch.presets",
    "change": "launch.presets",
    "load_policy": "launch.evaluation.evaluate",
    "evaluate": "launch.evaluation.evaluate",
    "metric_names": "launch.records.metrics",
    "read_metric": "launch.records.metrics",
    "read_exchange": "launch.records.metrics",
    "sweep": "launch.sweeps.sweep",
    "TrainConfig": "launch.settings.train_config",
    "SweepConfig": "launch.sweeps.sweep_config",
    "SweepOptions": "launch.sweeps.sweep_options",
    "PbtConfig": "launch.sweeps.population",
    "PrunerConfig": "launch.sweeps.halving",
    "Range": "launch.sweeps.search_space",
    "Choice": "launch.sweeps.search_space",
    "SweepResult": "launch.sweeps.sweep_result",
    "TrainResult": "launch.supervision.training_result",
    "EvaluationResult": "launch.evaluation.evaluate",
    "Callback": "launch.supervision.callbacks",
    "TrainingRun": "launch.supervision.callbacks",
    "Interrupted": "launch.errors",
}


def __getattr__(name: str) -> Any:
    """Return a name of the Python API, such as `train`, `sweep`, `load_preset` or `evaluate`, or one of its types.

    Raises:
        AttributeError: there is no such name.
        ImportError: a file or package of the user's has the name of one of LASER's packages; the message names both.
    """
    if name not in _API:
        raise AttributeError(f"module 'laser' has no attribute {name!r}")
    _enter()
    return getattr(importlib.import_module(_API[name]), name)


def __dir__() -> list[str]:
    """Return the names of this module and of the Python API."""
    return sorted([*globals(), *_API])


@functools.cache
def _enter() -> None:
    """Take the first steps of the `laser` command: check for packages of the same names, and set up the process."""
    # By its path: the name `launch` may belong to a file of the user's.
    shadowing = runpy.run_path(str(Path(__file__).resolve().parents[1] / "launch" / "shadowing.py"))
    shadowing["check_packages"]()
    importlib.import_module("launch.process_settings").prepare_process()
