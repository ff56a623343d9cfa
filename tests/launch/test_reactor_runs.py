"""Whole small runs of Reactor, with and without memories and a guessed behaviour: resumed, in threads, shared."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
from saved_runs import train_whole_and_in_parts

from launch.presets import load_preset
from launch.train import train

MEMORY = {"network.core": "lstm", "network.core-size": 8}
CASES = {
    "plain": {"algorithm.target-period": 3},
    "memory": MEMORY | {"algorithm.behaviour-policy": "learned", "algorithm.target-period": 3},
    "published": MEMORY
    | {"learner.replay-core-state": "zero", "algorithm.target-state": "zero", "replay.sequence-starts": "step"},
    "sequences": {"replay.sequence-starts": "step", "replay.num-shards": 2, "num-actors": 2},
}


def small(path: Path, **changes: object):
    values = {
        "network.hidden-sizes": (8,),
        "algorithm.batch-size": 4,
        "num-envs": 2,
        "unroll-length": 8,
        "replay.min-steps": 64,
        "replay.samples-per-insert": 2.0,
        "run-dir": path,
        "quiet": True,
        **changes,
    }
    return load_preset("reactor_cartpole", values)


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    whole, one = train_whole_and_in_parts(functools.partial(small, **CASES[name]), tmp_path, 640, 320)
    assert whole.learner_steps > 10
    assert "target_slow/vector" in one
    assert ("replay_states/behaviour_cell" in one) == (name == "memory")


@pytest.mark.parametrize("name", ["plain", "memory"])
def test_threads_learn_too(name, tmp_path):
    config = small(tmp_path / "run", steps=640, runtime="local", **CASES[name])
    result = train(dataclasses.replace(config, learner=dataclasses.replace(config.learner, deadline_s=60.0)))
    assert result.learner_steps > 10
