"""Whole small runs of SAC and TD3: repeatable, resumable, with every sampler."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from saved_runs import train_whole_and_in_parts

from launch.presets import load_preset
from launch.records.metrics_db import read_names
from launch.train import train


def small(name: str, path: Path, **changes: object):
    values = {
        "algorithm.batch-size": 16,
        "replay.capacity-steps": 640,
        "replay.min-steps": 128,
        "replay.samples-per-insert": 8.0,
        "network.hidden-sizes": (8,),
        "run-dir": path,
        "quiet": True,
    }
    return load_preset(f"{name}_pendulum", {**values, **changes})


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    # An odd number of updates before the break: TD3's pace goes on where it was.
    whole, one = train_whole_and_in_parts(functools.partial(small, name), tmp_path, 404, 202)
    assert whole.learner_steps > 50
    assert one["networks/has_learned"] == 1.0
    names = {each.split("/")[-1] for each in read_names(tmp_path / "whole" / "metrics.db")}
    assert {"critic_loss", "q_value", "q_of_policy"} <= names
    if name == "sac":
        assert one["networks/log_temperature"] != 0.0
        assert {"temperature", "entropy"} <= names
    else:
        assert one["optimizer/num_steps_every_2"] == one["optimizer/num_steps"] // 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sac", "td3"])
def test_compiled_noise_repeats_and_goes_on_where_it_was(name, tmp_path):
    # As wide as the nets that torch shares out over two threads.
    wide = {"learner.compile": "on", "network.hidden-sizes": (256, 256), "learner.precision": "bfloat16"}
    whole, _ = train_whole_and_in_parts(lambda path, **more: small(name, path, **wide, **more), tmp_path, 404, 202)
    assert whole.learner_steps > 50


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_threads_learn_too(name, tmp_path):
    result = train(small(name, tmp_path / "run", steps=280, runtime="local"))
    assert result.learner_steps > 10
    assert result.env_steps >= 280


@pytest.mark.parametrize("name", ["sac", "td3"])
@pytest.mark.parametrize("sampler", ["per", "ners"])
def test_samplers_by_a_flag(name, sampler, tmp_path):
    result = train(small(name, tmp_path / "run", steps=280, **{"replay.sampler": sampler, "evaluation.interval": 200}))
    assert result.learner_steps > 10
