"""The form of a run's saved state, which a run, an evaluation or a report reads from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from laser.environments.statistics import Statistics, statistics_from_json
from laser.specs import environment_spec_from_json
from learner.checkpoint import Checkpoint

_STATE = {"tree": dict, "recorder": dict, "environment": dict, "next_incarnation": int}
_TREE = {"numbers": dict, "actors": list, "replay": list}


def check_saved_state(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint holds a run's state.

    Raises:
        ValueError: a part is missing or of another kind.
    """
    if "networks" not in checkpoint.tensors:
        raise ValueError("it holds no networks")
    for name, parts in (("state.json", _STATE), ("its tree", _TREE)):
        values = checkpoint.state if parts is _STATE else checkpoint.state["tree"]
        for key, kind in parts.items():
            if not isinstance(values.get(key), kind):
                raise ValueError(f"{name} must have {key} of type {kind.__name__}, got {values.get(key)!r:.40}")
    try:
        environment_spec_from_json(checkpoint.state["environment"])
    except Exception as error:
        raise ValueError(f"its environment is no environment spec ({type(error).__name__}: {error})") from error


def saved_statistics(checkpoint: Checkpoint) -> Statistics:
    """Return the statistics of wrappers in a checkpoint; {} without such wrappers, or in those of older versions."""
    tree = checkpoint.state["tree"].get("statistics", {})
    return statistics_from_json(put_arrays_back(tree, checkpoint.arrays))


def take_arrays_out(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value as JSON, with its arrays moved into `arrays` and replaced by their path."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"__array__": path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: take_arrays_out(item, f"{path}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [take_arrays_out(item, f"{path}/{index}", arrays) for index, item in enumerate(value)]
    return value


def put_arrays_back(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return a value of `take_arrays_out` with its arrays."""
    if isinstance(value, dict):
        if set(value) == {"__array__"}:
            return arrays[value["__array__"]]
        return {key: put_arrays_back(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [put_arrays_back(item, arrays) for item in value]
    return value
