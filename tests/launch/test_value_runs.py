"""Whole small runs of DQN and Rainbow, from pixels too: repeatable, resumable, and learning."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from saved_runs import train_whole_and_in_parts, weights

from laser.environments import task_ids
from laser.environments.named_sets import ATARI16
from launch.presets import load_preset
from launch.records.metrics_db import read_names
from launch.train import train

SMALL = {"algorithm.batch-size": 8, "replay.samples-per-insert": 2.0, "unroll-length": 8, "quiet": True}
CASES = {
    "double": ("dqn_cartpole", {"replay.min-steps": 64, "algorithm.num-steps": 3, "network.hidden-sizes": (8,)}),
    "pixels": ("dqn_mini", {"replay.min-steps": 64, "algorithm.dueling": True, "replay.capacity-steps": 320}),
    "rainbow": (
        "rainbow",
        {
            "env": "mini/PixelCatch-v0",
            "runtime": "lockstep",
            "network.torso": "cells_cnn",
            "algorithm.head-size": 8,
            "algorithm.noise-lasts": "episode",
            "algorithm.target-period": 7,
            "environment.life-loss-ends-episode": False,
            "replay.importance-schedule": "constant",  # else it would end with the first half
            "learner.publish-interval": 1,  # a run that resumes publishes at once
            "replay.min-steps": 64,
        },
    ),
}


def small(name: str, path: Path, **changes: object):
    preset, values = CASES[name]
    return load_preset(preset, SMALL | values | {"run-dir": path} | changes)


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    whole, one = train_whole_and_in_parts(functools.partial(small, name), tmp_path, 480, 240)
    assert whole.learner_steps > 50
    assert one["networks/num_updates"] == whole.learner_steps
    assert "target_target/vector" in one
    names = {each.split("/")[-1] for each in read_names(tmp_path / "whole" / "metrics.db")}
    assert {"critic_loss", "abs_td_error", "q_value", "epsilon"} <= names


def test_rainbow_plays_atari(tmp_path):
    values = SMALL | {"steps": 200, "runtime": "lockstep", "replay.min-steps": 100, "replay.capacity-steps": 2_000}
    result = train(load_preset("rainbow", values | {"run-dir": tmp_path / "run"}))
    assert result.env_steps >= 200
    assert result.frames == 4 * result.env_steps
    assert result.learner_steps > 20
    assert all(value.isfinite().all() for value in weights(tmp_path / "run").values())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dqn_learns_to_catch_from_pictures(tmp_path):
    result = train(load_preset("dqn_mini", {"steps": 2_000, "run-dir": tmp_path / "run", "quiet": True}))
    # At random -0.6, and 20 episodes of that deviate by 0.18.
    assert result.mean_return > 0.4


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rainbow_learns_to_catch_from_pictures(tmp_path):
    changes = {
        "steps": 3_000,
        "run-dir": tmp_path / "run",
        "quiet": True,
        "unroll-length": 8,
        "replay.min-steps": 200,
        "algorithm.learning-rate": 1e-3,
        "algorithm.optimizer-epsilon": 1e-8,
        "algorithm.num-steps": 5,
        "algorithm.noise-lasts": "step",
        "algorithm.head-size": 64,
        "algorithm.lowest-return": -1.5,
        "algorithm.highest-return": 1.5,
        "algorithm.target-period": 50,
        "learner.precision": "float32",
    }
    assert train(load_preset("rainbow", CASES["rainbow"][1] | changes)).mean_return > 0.5


def test_the_sixteen_games_have_a_name():
    assert task_ids("atari16") == ATARI16
    assert len(set(ATARI16)) == 16
