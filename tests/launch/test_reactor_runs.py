"""Whole small runs of Reactor, with and without memories and a guessed behaviour: resumed, in threads, shared."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from launch.presets import load_preset
from launch.train import train
from learner.checkpoint import load_newest_checkpoint

MEMORY = {"network.core": "lstm", "network.core-size": 8}
CASES = {
    "plain": {"algorithm.target-period": 3},
    "memory": MEMORY | {"algorithm.behaviour-policy": "learned", "algorithm.target-period": 3},
    "published": MEMORY | {"learner.replay-core-state": "zero", "algorithm.target-state": "zero"},
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


def weights(path: Path) -> dict[str, torch.Tensor]:
    checkpoint, warnings = load_newest_checkpoint(path / "checkpoints")
    assert not warnings
    return {f"{group}/{name}": value for group, part in checkpoint.tensors.items() for name, value in part.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    keep = {"checkpoint-replay": True, **CASES[name]}
    whole = train(small(tmp_path / "whole", steps=640, **keep))
    train(small(tmp_path / "parts", steps=320, **keep))
    train(small(tmp_path / "parts", steps=640, **keep, resume=True))
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert set(one) == set(other)
    for key, value in one.items():
        torch.testing.assert_close(value, other[key], rtol=0, atol=0, msg=key)
    assert whole.learner_steps > 10
    assert "target_slow/vector" in one
    assert ("replay_states/behaviour_cell" in one) == (name == "memory")


@pytest.mark.parametrize("name", ["plain", "memory"])
def test_threads_learn_too(name, tmp_path):
    config = small(tmp_path / "run", steps=640, runtime="local", **CASES[name])
    result = train(dataclasses.replace(config, learner=dataclasses.replace(config.learner, deadline_s=60.0)))
    assert result.learner_steps > 10
