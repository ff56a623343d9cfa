"""The form of a run's saved state, which a run, an evaluation or a report reads from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from laser.environments.statistics import Statistics, statistics_from_json
from laser.specs import environment_spec_from_json
from launch.records.forms import COUNT, FINITE, AtLeast, Either, check_form
from learner.checkpoint import Checkpoint

_NUMBERS = {...: float}
_COUNTED = {...: FINITE}  # an earlier total of seconds is taken from a later one, which may leave a little less than 0
_COUNTS = {...: int}
_STREAMS = {"marks": [([int], int)], "incarnations": [([int], int)]}
_LEDGER = {name: Either(int, _COUNTS) for name in ("received", "inserted", "rejected", "failed", "lost", ...)}
_STATISTICS = {"name": str, "count": float, "num": int}
_SHARDS = [
    {
        "made_for": dict,
        "store": {"pages": {"used": np.ndarray, "positions": np.ndarray}},
        "streams": _STREAMS,
        "ledger": _LEDGER,
        "rng": dict,
    }
]
_TREE = {
    "numbers": {
        "num_steps": COUNT,
        "version": AtLeast(int, -1),
        "counters": _COUNTED,
        "progress": AtLeast(float),
        "settings?": _NUMBERS,
        "streams": (Either(int, type(None)), int),
        "replays?": Either(type(None), dict),
        "client": dict,
        "sampler?": dict,
    },
    "generator": np.ndarray,
    "actors": [
        Either(type(None), {"groups": [dict], "counters": _COUNTED, "incarnation": COUNT, "generator": np.ndarray})
    ],
    "replay": _SHARDS,
    "statistics?": {...: [_STATISTICS]},
    "accounts?": [{"streams": _STREAMS, "ledger": _LEDGER}],
}
_RECORDER = {
    "seconds": AtLeast(float),
    "totals": {"env_steps?": AtLeast(float), "frames?": AtLeast(float), ...: FINITE},
    "last": {...: _COUNTED},
    "returns": [float],
    "marks?": _COUNTED,
    "task_returns?": {
        "newest": [[float]],
        "bucket": COUNT,
        "width?": AtLeast(int, 1),
        "sums": [float],
        "counts": [COUNT],
        "means": _NUMBERS,
        "numbers?": _COUNTED,
        "returns?": {"num": COUNT, "kept": [float], "stride": AtLeast(int, 1)},
        "percentiles?": [float],
    },
    "newest_evaluation?": Either(type(None), (FINITE, float)),
}
_STATE = {
    "tree": _TREE,
    "recorder": _RECORDER,
    "next_incarnation": COUNT,
    "environment": dict,
    "actors_made_for?": {"num_actors": int},
}


def check_saved_state(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint holds a run's state.

    Raises:
        ValueError: a part is missing or of another kind.
    """
    if "networks" not in checkpoint.tensors:
        raise ValueError("it holds no networks")
    state = _with_arrays(checkpoint)
    check_form(state, _STATE, "state.json")
    num_actors, num_made_for = len(state["tree"]["actors"]), state.get("actors_made_for", {}).get("num_actors")
    if num_made_for not in (None, num_actors):
        raise ValueError(f"state.json.tree.actors must have {num_made_for} items, got {num_actors}")
    _check_readable(state["environment"], environment_spec_from_json, "environment")
    _check_readable(state["tree"].get("statistics", {}), statistics_from_json, "tree.statistics")


def check_saved_shards(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint holds a replay, as that of a sweep's shared replay does.

    Raises:
        ValueError: a part is missing or of another kind.
    """
    check_form(_with_arrays(checkpoint), {"tree": {"replay": _SHARDS}}, "state.json")


def _with_arrays(checkpoint: Checkpoint) -> Any:
    try:
        return put_arrays_back(checkpoint.state, checkpoint.arrays)
    except (KeyError, TypeError) as error:
        raise ValueError(f"state.json refers to an array that is not there ({error})") from error


def _check_readable(value: Any, read: Callable[[Any], Any], name: str) -> None:
    try:
        read(value)
    except Exception as error:
        raise ValueError(f"state.json.{name} cannot be read ({type(error).__name__}: {error})") from error


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
