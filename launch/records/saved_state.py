"""The form of a run's saved state: what every checkpoint must hold for a run, an evaluation or a report to use it."""

from __future__ import annotations

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
