"""Checkpoints whose hashes are right and whose state is not: the run continues from the older one, and says so."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from launch.errors import NothingToResumeError
from launch.planning.member_plan import plan_member
from launch.presets import change, load_preset
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import restore
from launch.train import train
from learner.checkpoint import Checkpoint, list_checkpoints, load_checkpoint, save_checkpoint

OLDER, NEWER = 400, 800


def small(path: Path, steps: int, **changes: Any):
    values = {"runtime": "lockstep", "num_envs": 2, "replay.capacity-steps": 2000, "replay.min-steps": 64}
    values |= {"learner.compile": "off", "checkpoint-replay": True, "stop_at_return": float("inf"), "steps": steps}
    return dataclasses.replace(change(load_preset("cartpole"), values), run_dir=path, quiet=True, **changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    train(small(path, OLDER))
    train(small(path, NEWER, resume=True))
    return path


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def rewrite(run: Path, change: Callable[[Checkpoint], None], which: int = 0) -> Path:
    """Change a checkpoint, by default the newest; its hashes are right again."""
    path = list_checkpoints(run / "checkpoints")[which]
    checkpoint = load_checkpoint(path)
    change(checkpoint)
    state = json.loads(json.dumps(checkpoint.state))
    made = save_checkpoint(run / "beside", checkpoint.step, checkpoint.tensors, state, checkpoint.arrays)
    shutil.rmtree(path)
    made.rename(path)
    return path


def put(place: str, value: Any) -> Callable[[Checkpoint], None]:
    """Return a change of one value of the state; None: it is removed."""

    def change(checkpoint: Checkpoint) -> None:
        inside: Any = checkpoint.state
        *names, last = [int(name) if name.isdecimal() else name for name in place.split(".")]
        for name in names:
            inside = inside[name]
        if value is None:
            del inside[last]
        else:
            inside[last] = value

    return change


def put_array(name: str, array: np.ndarray) -> Callable[[Checkpoint], None]:
    return lambda checkpoint: checkpoint.arrays.update({name: array})


def reshape(group: str, name: str, *shape: int) -> Callable[[Checkpoint], None]:
    return lambda checkpoint: checkpoint.tensors[group].update({name: torch.zeros(shape)})


def scale(group: str, factor: float) -> Callable[[Checkpoint], None]:
    return convert(group, lambda value: value * factor)


def convert(group: str, to: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Checkpoint], None]:
    def change(checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors[group]
        tensors.update({name: to(value) for name, value in tensors.items()})

    return change


def drop_array(checkpoint: Checkpoint) -> None:
    del checkpoint.arrays["/replay/0/store/pages/used"]


def drop_tensor(checkpoint: Checkpoint) -> None:
    del checkpoint.tensors["networks"]["policy_head.linear.bias"]


VARIANTS = {
    "replay: segments of another form": (put("tree.replay", [{"segments": [{"x": 1}]}]), "tree.replay[0].made_for"),
    "replay: a number": (put("tree.replay", [3]), "tree.replay[0] must be an object, got 3"),
    "replay: no ledger": (put("tree.replay.0.ledger", None), "tree.replay[0].ledger"),
    "replay: no store": (put("tree.replay.0.store", {}), "tree.replay[0].store.pages"),
    "segment: no hash": (put("tree.replay.0.segments.0.sha256", None), ".segments[0].sha256 must be a text"),
    "segment: one value more": (put("tree.replay.0.segments.0.x", 1), "nothing else, got x"),
    "segment: not a list": (put("tree.replay.0.segments", 3), ".segments must be a list, got 3"),
    "segments: one is left out": (put("tree.replay.0.segments.0", None), "are in none of the replay's files"),
    "replay: pages beyond": (put_array("/replay/0/store/pages/used", np.array([10**6])), "used pages must be numbers"),
    "replay: an array is gone": (drop_array, "refers to an array that is not there"),
    "numbers: empty": (put("tree.numbers", {}), "tree.numbers.num_steps must be a whole number, got None"),
    "numbers: a text": (put("tree.numbers.version", "8"), "tree.numbers.version must be a whole number, got '8'"),
    "numbers: counters": (put("tree.numbers.counters", {"a": []}), "tree.numbers.counters.a must be a number"),
    "generator: none": (put("tree.generator", None), "tree.generator must be an array, got None"),
    "actors: a number": (put("tree.actors", [3]), "tree.actors[0]"),
    "actors: too few": (put("tree.actors", []), "tree.actors must have 1 items, got 0"),
    "accounts: a number": (put("tree.accounts", 3), "tree.accounts must be a list, got 3"),
    "accounts: no marks": (put("tree.accounts.0.streams.marks", None), "tree.accounts[0].streams.marks"),
    "statistics": (put("tree.statistics", {"0": [{}]}), "tree.statistics.0[0].name must be a text"),
    "statistics: a task": (put("tree.statistics", {"a": []}), "tree.statistics cannot be read"),
    "recorder: empty": (put("recorder", {}), "recorder.seconds must be a number, got None"),
    "recorder: returns": (put("recorder.returns", [None]), "recorder.returns[0] must be a number"),
    "incarnation: true": (put("next_incarnation", True), "next_incarnation must be a whole number, got True"),
    "incarnation: negative": (put("next_incarnation", -5), "next_incarnation must be a finite number from 0 to below"),
    "incarnation: huge": (put("next_incarnation", 2**70), "next_incarnation must be a finite number from 0 to below"),
    "updates: huge": (put("tree.numbers.num_steps", 10**30), "tree.numbers.num_steps must be a finite number"),
    "version: huge": (put("tree.numbers.version", 2**63), "tree.numbers.version must be a finite number from -1"),
    "version: negative": (put("tree.numbers.version", -7), "tree.numbers.version must be a finite number from -1"),
    "progress: NaN": (put("tree.numbers.progress", math.nan), "tree.numbers.progress must be a finite number"),
    "env steps: NaN": (put("recorder.totals.env_steps", math.nan), "recorder.totals.env_steps must be a finite number"),
    "env steps: inf": (put("recorder.totals.env_steps", math.inf), "recorder.totals.env_steps must be a finite number"),
    "unrolls: inf": (put("recorder.totals.unrolls", math.inf), "totals.unrolls must be a finite number below 2^63"),
    "seconds: NaN": (put("recorder.seconds", math.nan), "recorder.seconds must be a finite number from 0"),
    "bucket: negative": (put("recorder.task_returns.bucket", -(2**62)), "task_returns.bucket must be a finite number"),
    "networks: NaN": (scale("networks", math.nan), "has numbers that are not finite"),
    "networks: inf": (scale("networks", math.inf), "has numbers that are not finite"),
    "networks: float64": (convert("networks", torch.Tensor.double), "must be torch.float32, got torch.float64"),
    "networks: int32": (convert("networks", torch.Tensor.int), "must be torch.float32, got torch.int32"),
    "optimizer: NaN": (scale("optimizer", math.nan), "has numbers that are not finite"),
    "networks: another shape": (
        reshape("networks", "value_head.linear.bias", 3),
        "has the shape (3,)",
    ),
    "networks: one is gone": (drop_tensor, "networks/policy_head.linear.bias has the shape none in place of (2,)"),
    "optimizer: another shape": (reshape("optimizer", "second", 3), "optimizer/second has the shape (3,) in place of"),
}


@pytest.mark.parametrize(("change", "says"), VARIANTS.values(), ids=VARIANTS)
def test_a_state_that_cannot_be_used_gives_way_to_the_older_checkpoint(run, change, says):
    newest = rewrite(run, change)
    saved, nothing = restore(RunDirectory(run, resumed=True), plan_member(small(run, NEWER)))
    assert nothing is None
    assert OLDER <= saved.checkpoint.step < NEWER
    (warning,) = saved.warnings
    assert newest.name in warning
    assert says in warning
    assert warning.endswith(f"; {saved.checkpoint.path.name} is used")
    assert "\n" not in warning


@pytest.mark.parametrize("name", ["replay: a number", "numbers: empty", "networks: another shape"])
def test_a_run_goes_on_from_the_older_checkpoint(run, name, capsys):
    newest = rewrite(run, VARIANTS[name][0])
    result = train(dataclasses.replace(small(run, NEWER + 100, resume=True), quiet=False))
    assert result.env_steps >= NEWER + 100
    said = capsys.readouterr().err
    assert said.count("warning: ") == 1, said
    assert f"{newest} cannot be used: " in said
    assert result.ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}


def test_where_all_have_other_networks_the_settings_are_named(run):
    for which in (0, 1):
        rewrite(run, VARIANTS["networks: another shape"][0], which)
    with pytest.raises(NothingToResumeError, match="use the network settings it was trained with"):
        train(small(run, NEWER + 100, resume=True))
