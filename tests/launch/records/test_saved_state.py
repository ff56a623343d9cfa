"""Checkpoints that verify and do not hold a run's state give way to the one before."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from laser.specs import DiscreteActions, EnvironmentSpec, VectorSpec
from launch.records.saved_state import check_saved_state
from learner.checkpoint import NoCheckpointError, load_best_checkpoint, load_newest_checkpoint, save_checkpoint

SPEC = EnvironmentSpec("Test-v0", {"observation": VectorSpec((2,))}, DiscreteActions(2))
NUMBERS = {"num_steps": 3, "version": 2, "counters": {}, "progress": 0.5, "streams": [None, 0], "client": {}}
STATE = {
    "tree": {"numbers": NUMBERS, "actors": [], "replay": [], "generator": {"__array__": "/generator"}},
    "recorder": {"seconds": 1.5, "totals": {}, "last": {}, "returns": []},
    "environment": SPEC.to_json(),
    "next_incarnation": 4,
}
NETWORKS = {"networks": {"w": torch.zeros(2)}}


def save(root: Path, step: int, state=STATE, tensors=NETWORKS) -> Path:
    return save_checkpoint(root, step, tensors, json.loads(json.dumps(state)), {"/generator": np.zeros(2)})


@pytest.mark.parametrize("load", [load_newest_checkpoint, load_best_checkpoint])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": {}}, "state.json.tree must be an object, got None"),
        ({"state": STATE | {"tree": []}}, "state.json.tree must be an object, got []"),
        ({"state": STATE | {"tree": {"numbers": 3}}}, "state.json.tree.numbers must be an object, got 3"),
        ({"state": STATE | {"next_incarnation": "4"}}, "state.json.next_incarnation must be a whole number, got '4'"),
        ({"state": STATE | {"environment": {"id": "Test-v0"}}}, "state.json.environment cannot be read"),
        ({"tensors": {"optimizer": {}}}, "it holds no networks"),
    ],
)
def test_a_checkpoint_without_a_runs_state_gives_way_to_the_older_one(tmp_path, load, changes, says):
    save(tmp_path, 1)
    newest = save(tmp_path, 2, **changes)
    checkpoint, (warning,) = load(tmp_path, check_saved_state)
    assert checkpoint.step == 1
    assert newest.name in warning
    assert says in warning


def test_where_none_can_be_used_that_is_said(tmp_path):
    save(tmp_path, 1, state={})
    with pytest.raises(NoCheckpointError, match=r"cannot be used: state\.json\.tree must be an object"):
        load_newest_checkpoint(tmp_path, check_saved_state)
