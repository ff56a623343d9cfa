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
STATE = {
    "tree": {"numbers": {}, "actors": [], "replay": [], "generator": {"__array__": "/generator"}},
    "recorder": {},
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
        ({"state": {}}, "must have tree of type dict, got None"),
        ({"state": STATE | {"tree": []}}, "must have tree of type dict"),
        ({"state": STATE | {"tree": {"numbers": 3}}}, "must have numbers of type dict, got 3"),
        ({"state": STATE | {"next_incarnation": "4"}}, "must have next_incarnation of type int, got '4'"),
        ({"state": STATE | {"environment": {"id": "Test-v0"}}}, "its environment is no environment spec"),
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
    with pytest.raises(NoCheckpointError, match=r"cannot be used: state\.json must have tree"):
        load_newest_checkpoint(tmp_path, check_saved_state)
