"""Snapshots: the whole of a shard as plain .npy files and one JSON file, without pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA_VERSION = 1
_STATE = "state.json"
_ARRAY = "__array__"


def save_state(state: dict[str, Any], directory: Path) -> int:
    """Write nested dicts of arrays and JSON values into `directory`, which is made; return the bytes written.

    Making it atomic (a directory beside, flushed and renamed) is the caller's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    arrays: list[np.ndarray] = []
    plain = {"schema_version": SCHEMA_VERSION, "state": _without_arrays(state, arrays)}
    for number, array in enumerate(arrays):
        np.save(directory / f"{number}.npy", array, allow_pickle=False)
    (directory / _STATE).write_text(json.dumps(plain))
    return sum(path.stat().st_size for path in directory.iterdir())


def load_state(directory: Path) -> dict[str, Any]:
    """Read what `save_state` wrote.

    Raises:
        ValueError: it was written by another version of the format.
        OSError: a file is missing.
    """
    plain = json.loads((directory / _STATE).read_text())
    if plain["schema_version"] != SCHEMA_VERSION:
        raise ValueError(
            f"the replay snapshot in {directory} has schema version {plain['schema_version']}, this program reads "
            f"{SCHEMA_VERSION}; resume without it"
        )
    state: dict[str, Any] = _with_arrays(plain["state"], directory)
    return state


def state_bytes(state: Any) -> int:
    """Return about how many bytes `save_state` will write."""
    if isinstance(state, np.ndarray):
        return state.nbytes + 128
    if isinstance(state, dict) and any(isinstance(value, dict | np.ndarray) for value in state.values()):
        return sum(state_bytes(value) for value in state.values())
    return len(json.dumps(state))


def _without_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, dict):
        return {key: _without_arrays(item, arrays) for key, item in value.items()}
    return value


def _with_arrays(value: Any, directory: Path) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return np.load(directory / f"{value[_ARRAY]}.npy", allow_pickle=False)
        return {key: _with_arrays(item, directory) for key, item in value.items()}
    return value
