"""Whole small runs of ACER: repeatable, resumable, with and without memory, and in threads."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
from saved_runs import train_whole_and_in_parts

from laser.config import ConfigError
from launch.presets import load_preset
from launch.records.metrics_db import read_series
from launch.train import train

LSTM = {"network.core": "lstm", "network.core-size": 8, "network.separate-critic": False}
CASES = {
    "discrete": ("acer_cartpole", {}),
    "recurrent": ("acer_cartpole", {**LSTM, "replay.num-shards": 2, "num-actors": 2, "num-envs": 2}),
    "continuous": ("acer_pendulum", {"algorithm.std": "learned", "replay.samples-per-insert": 8.0}),
    "recurrent continuous": (
        "acer_pendulum",
        {
            **LSTM,
            "num-envs": 1,  # an episode must finish before the break
            "algorithm.replay-fraction": 0.0,
            "algorithm.replay-ratio": 2.0,
            "replay.samples-per-insert": "inf",
        },
    ),
}


def small(name: str, path: Path, **changes: object):
    preset, values = CASES[name]
    values = {
        "network.hidden-sizes": (8,),
        "unroll-length": 8,
        "algorithm.batch-size": 4,
        "replay.capacity-steps": 1000,
        "replay.min-steps": 128,
        "stop-at-return": float("inf"),
        "run-dir": path,
        "quiet": True,
        **values,
        **changes,
    }
    return load_preset(preset, values)


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    whole, one = train_whole_and_in_parts(functools.partial(small, name), tmp_path, 512, 256)
    assert "target_average/vector" in one
    assert ("replay_states/hidden" in one) == ("recurrent" in name)
    assert whole.learner_steps > 10


def learned(path: Path) -> tuple[float, float]:
    return tuple(
        read_series(path / "metrics.db", f"totals/unrolls_learned/{part}")[-1][1] for part in ("online", "replayed")
    )


def test_replayed_batches_follow_fresh_ones(tmp_path):
    train(small("discrete", tmp_path / "run", steps=2400, **{"algorithm.replay-ratio": 3.0}))
    online, replayed = learned(tmp_path / "run")
    # Poisson numbers of mean 3: the ratio's standard error is sqrt(3 / batches).
    assert abs(replayed / online - 3.0) < 5 * (3.0 / (online / 4)) ** 0.5
    train(small("discrete", tmp_path / "fresh", steps=640, **{"algorithm.replay-ratio": 0.0}))
    assert learned(tmp_path / "fresh")[1] == 0


@pytest.mark.parametrize("name", ["recurrent", "continuous"])
def test_threads_learn_too(name, tmp_path):
    config = small(name, tmp_path / "run", steps=512, runtime="local")
    result = train(dataclasses.replace(config, learner=dataclasses.replace(config.learner, deadline_s=60.0)))
    assert result.learner_steps > 10
    assert result.env_steps >= 512


@pytest.mark.parametrize(
    ("preset", "env", "line"),
    [
        ("acer_cartpole", "Pendulum-v1", "algorithm: acer needs Discrete actions, Pendulum-v1 has Box"),
        (
            "acer_pendulum",
            "CartPole-v1",
            "algorithm: acer_continuous needs Box actions, CartPole-v1 has Discrete",
        ),
    ],
)
def test_wrong_kinds_of_actions_are_refused_before_anything_starts(preset, env, line, tmp_path):
    with pytest.raises(ConfigError, match=line):
        train(load_preset(preset, {"env": env, "run-dir": tmp_path / "run", "quiet": True}))
    assert not (tmp_path / "run").exists()
