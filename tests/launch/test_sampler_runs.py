"""Learned samplers through whole small runs: they learn, resume bit by bit, and say what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from laser.config import ConfigError
from launch.presets import load_preset
from launch.recording.metrics_db import read_names, read_series
from launch.train import train
from learner.checkpoint import load_newest_checkpoint
from learner.learner import Learner

SMALL = {
    "network.hidden-sizes": (8,),
    "algorithm.batch-size": 16,
    "unroll-length": 8,
    "replay.capacity-steps": 640,
    "replay.min-steps": 256,
    "replay.samples-per-insert": 8.0,
    "replay.importance-schedule": "constant",
    "evaluation.interval": 150,  # no part ends at a multiple
    "evaluation.episodes": 1,
    "evaluation.num-envs": 1,
    "quiet": True,
    "checkpoint-replay": True,
}
EVALUATED = {"ners": {"replay.sampler": "ners"}, "ero": {"replay.sampler": "ero"}}
CASES = {
    **EVALUATED,
    "ners over shards": {"replay.sampler": "ners", "replay.num-shards": 2, "num-actors": 2},
    "ero over shards": {"replay.sampler": "ero", "replay.num-shards": 2, "num-actors": 2},
    "ners*": {"replay.sampler": "ners", "replay.ners.reward": "training", "evaluation.interval": 0},
}

QUICK = ("ners over shards", "ero")


def small(name: str, path: Path, **changes: object):
    return load_preset("ddpg_pendulum", {**SMALL, **CASES[name], "run-dir": path, **changes})


def weights(path: Path) -> dict[str, torch.Tensor]:
    checkpoint, warnings = load_newest_checkpoint(path / "checkpoints")
    assert not warnings
    return {f"{group}/{name}": value for group, part in checkpoint.tensors.items() for name, value in part.items()}


def recorded(path: Path) -> dict[str, float]:
    """Return the newest value of every metric."""
    database = path / "metrics.db"
    return {name: series[-1][1] for name in read_names(database) if (series := read_series(database, name))}


@pytest.mark.parametrize(
    "name", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    train(small(name, tmp_path / "whole", steps=960))
    train(small(name, tmp_path / "parts", steps=560))
    train(small(name, tmp_path / "parts", steps=960, resume=True))
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert set(one) == set(other)
    for key, value in one.items():
        torch.testing.assert_close(value, other[key], rtol=0, atol=0, msg=key)
    assert any(key.startswith("sampler/network/") for key in one)
    assert any(key.startswith("sampler/optimizer/") for key in one), "the sampler never learned"


@pytest.mark.parametrize("name", EVALUATED)
def test_it_learns_from_every_evaluation_but_the_first_and_records_what_it_draws(name, tmp_path):
    train(small(name, tmp_path / "run", steps=960))
    metrics = recorded(tmp_path / "run")
    assert metrics["sampler/updates"] == 960 // 150 - 1
    assert metrics["sampler/replay_reward"] != 0
    for what in ("sampled_td_error", "stored_td_error", "sampled_q", "stored_q"):
        assert {f"{what}/{part}" for part in ("p10", "p50", "p90", "mean", "std")} <= set(metrics)
    assert 0 < metrics["effective_draws"] <= 1
    assert metrics["times_replayed/max"] >= metrics["times_replayed/p50"] >= 1
    if name == "ners":
        assert 0 < metrics["sampler/score_mean"] < 1


@pytest.mark.parametrize("name", ["ners", "ero"])
def test_threads_learn_too(name, tmp_path, monkeypatch):
    heard = []
    hear = Learner.hear_return

    def watched(self, mean_return):
        heard.append(mean_return)
        hear(self, mean_return)

    monkeypatch.setattr(Learner, "hear_return", watched)
    result = train(small(name, tmp_path / "run", steps=960, runtime="local", **{"learner.deadline_s": 60.0}))
    assert result.learner_steps > 10
    assert heard


def test_that_it_never_learns_without_evaluations_is_said(tmp_path):
    for changes, said in (
        ({"evaluation.interval": 0}, True),
        ({"evaluation.interval": 500}, True),
        ({"evaluation.interval": 480}, False),
        ({"evaluation.interval": 0, "replay.ners.reward": "training"}, False),
    ):
        lines = [str(problem) for problem in small("ners", tmp_path, steps=960, **changes).warnings()]
        assert any("ners learns from the change between two evaluations" in line for line in lines) == said


@pytest.mark.parametrize(
    ("preset", "changes", "line"),
    [
        ("cartpole", {"replay.sampler": "ners"}, "replay.sampler: ners does not draw unrolls, which laser learns from"),
        ("cartpole", {"replay.sampler": "ero"}, "replay.sampler: ero does not draw unrolls, which laser learns from"),
    ],
)
def test_agents_that_cannot_feed_it_are_refused_in_one_line(preset, changes, line, tmp_path):
    with pytest.raises(ConfigError) as caught:
        train(load_preset(preset, {**changes, "evaluation.interval": 100, "run-dir": tmp_path / "run", "quiet": True}))
    assert str(caught.value).startswith(line)
    assert len(str(caught.value).splitlines()) == 1


def test_exponents_outside_their_ranges_are_named_together():
    wrong = {
        "replay.priority-exponent": -0.1,
        "replay.priority-uniform": 1.5,
        "replay.importance-exponent": 1.2,
        "replay.ners.learning-rate": 0.0,
        "replay.ners.batch-size": 1,
        "replay.ero.num-updates": 0,
    }
    with pytest.raises(ConfigError) as caught:
        load_preset("ddpg_pendulum", wrong)
    assert {problem.key for problem in caught.value.problems} == set(wrong)


STEP_PRESETS = ["sac_pendulum", "td3_pendulum", "ddpg_pendulum", "naf_pendulum", "racer_pendulum", "v_racer_pendulum"]
PAIRS = [(preset, sampler) for preset in [*STEP_PRESETS, "dqn_mini"] for sampler in ("per", "rank", "ero", "ners")]
OFTEN = [("sac_pendulum", "ners"), ("dqn_mini", "ners")]  # images too


@pytest.mark.parametrize(
    ("preset", "sampler"), [pair if pair in OFTEN else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS]
)
def test_every_sampler_works_with_every_agent_of_single_steps(preset, sampler, tmp_path):
    values = {"replay.sampler": sampler, "run-dir": tmp_path / "run", "steps": 480, "evaluation.interval": 90}
    if preset == "dqn_mini":
        values |= {"algorithm.distributional": True, "algorithm.noisy": True, "algorithm.dueling": True}
        values |= {"network.hidden-sizes": ()}
    result = train(load_preset(preset, {**SMALL, **values}))
    assert result.learner_steps > 10
    metrics = recorded(tmp_path / "run")
    assert 0 < metrics["effective_draws"] <= 1
    assert metrics["stored_q/std"] > 0
    if sampler in EVALUATED:
        assert metrics["sampler/updates"] > 0
