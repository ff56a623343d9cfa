"""Whole small runs of the algorithms that learn from single steps, and of PPO: repeatable, resumable, bounded."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
from saved_runs import train_whole_and_in_parts

from laser.algorithms.ppo import PpoConfig
from laser.config import ConfigError, find_problems
from laser.flat_parameters import FlatParameters
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.records.metrics_db import read_names, read_series
from launch.train import train

FORGETFUL = {"replay.capacity-steps": 640, "replay.min-steps": 256, "algorithm.refer.recount-interval": 7}
TOGETHER = {"learner.batches-per-draw": 3}
CASES = {
    "racer": ("racer_pendulum", {"algorithm.refresh-interval": 5, "algorithm.reward-interval": 5, **FORGETFUL}),
    "v_racer": ("v_racer_pendulum", {"algorithm.refresh": "early_stop", **TOGETHER, **FORGETFUL}),
    "ddpg": ("ddpg_pendulum", {"algorithm.exploration": "ornstein_uhlenbeck", "algorithm.num-steps": 3, **FORGETFUL}),
    "naf": (
        "naf_pendulum",
        {"replay.sampler": "per", "replay.importance-schedule": "constant", **TOGETHER, **FORGETFUL},
    ),
    "laser": ("cartpole", {"algorithm.refer.enabled": True, "algorithm.refer.beta-rate": 0.01, "num-envs": 2}),
    "ppo": ("ppo_pendulum", {"algorithm.num-minibatches": 4, "algorithm.num-epochs": 2, "num-envs": 2}),
}


def small(name: str, path: Path, **changes: object):
    preset, values = CASES[name]
    if name not in ("ppo", "laser"):
        values = values | {"algorithm.batch-size": 16, "replay.samples-per-insert": 8.0}
    values = values | {"network.hidden-sizes": (8,), "unroll-length": 8, "run-dir": path, "quiet": True, **changes}
    return load_preset(preset, values)


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    whole, one = train_whole_and_in_parts(functools.partial(small, name), tmp_path, 960, 480)
    assert whole.learner_steps > 10
    assert ("target_slow/vector" in one) == (name in ("ddpg", "naf"))
    if name not in ("ppo", "laser"):
        assert one["networks/normalizer.reward_scale"] != 1.0
        assert (one["networks/normalizer.mean_0"] != 0).any()
    if name != "ppo":
        names = read_names(tmp_path / "whole" / "metrics.db")
        assert {"refer_beta", "far_fraction", "stored_far_fraction", "kl_from_behaviour"} <= {
            each.split("/")[-1] for each in names
        }


@pytest.mark.parametrize("name", ["racer", "ppo"])
def test_threads_learn_where_parameters_are_handed_over_later_as_from_a_gpu(name, tmp_path, monkeypatch):
    monkeypatch.setattr(FlatParameters, "is_copied_later", True)
    # PPO's actors wait for parameters that the learner hands over while it waits for them.
    config = small(name, tmp_path / "run", steps=960, runtime="local")
    config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, deadline_s=5.0))
    result = train(config)
    assert result.learner_steps > 5


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["racer", "ddpg", "ppo", "laser"])
def test_a_gpu_learns_too(name, tmp_path):
    config = small(name, tmp_path / "run", steps=960, runtime="local", device="cuda")
    result = train(dataclasses.replace(config, stop_at_return=float("inf")))
    assert result.learner_steps > 5


@pytest.mark.parametrize("name", ["racer", "ddpg", "ppo"])
def test_threads_learn_too(name, tmp_path):
    config = small(name, tmp_path / "run", steps=960, runtime="local")
    result = train(dataclasses.replace(config, learner=dataclasses.replace(config.learner, deadline_s=60.0)))
    assert result.learner_steps > 10
    assert result.env_steps >= 960


def test_what_is_out_of_range_is_named():
    config = load_preset("racer")
    wrong = {
        "algorithm.refer.tolerance": 1.5,
        "algorithm.refer.c": 0.0,
        "algorithm.refer.initial-beta": -0.1,
        "algorithm.refer.beta-rate": 2.0,
        "replay.min-steps": 2**20,
    }
    with pytest.raises(ConfigError) as caught:
        load_preset("racer", wrong)
    assert {problem.key for problem in caught.value.problems} == set(wrong)
    small_warm_up = dataclasses.replace(config, replay=dataclasses.replace(config.replay, min_steps=100))
    (problem,) = find_problems(small_warm_up)
    assert str(problem).startswith("replay.min-steps: must be at least a batch of 256 steps, got 100")


@pytest.mark.parametrize(
    ("preset", "env", "line"),
    [
        (
            "racer",
            "CartPole-v1",
            "algorithm: racer needs Box actions, CartPole-v1 has Discrete; presets that would do: cartpole, box2d",
        ),
        (
            "ddpg",
            "ALE/Pong-v5",
            "algorithm: ddpg needs Box actions, ALE/Pong-v5 has Discrete; presets that would do: atari_small, pong, ",
        ),
    ],
)
def test_discrete_environments_are_refused_before_anything_starts(preset, env, line, tmp_path):
    with pytest.raises(ConfigError, match=line):
        train(load_preset(preset, {"env": env, "run-dir": tmp_path / "run", "quiet": True}))
    assert not (tmp_path / "run").exists()


def test_on_policy_actors_wait_for_the_version_that_their_unrolls_lead_to(tmp_path):
    assert policy_lags(tmp_path / "run") == {0.0}  # of what is learned from, before the next version is out


def test_that_they_wait_can_be_told(tmp_path, monkeypatch):
    monkeypatch.setattr(PpoConfig, "max_policy_lag", None)
    assert max(policy_lags(tmp_path / "run")) > 1.0


def policy_lags(path: Path) -> set[float]:
    """Return the least and the largest lags of fresh experience over a run in threads."""
    train(small("ppo", path, steps=960, runtime="local", **{"num-actors": 2, "algorithm.batch-size": 4}))
    names = ("policy_lag/online/p10", "policy_lag/online/max")
    return {value for name in names for _, value in read_series(path / "metrics.db", name)}


DRIFTING = {"algorithm.exploration": "ornstein_uhlenbeck"}
PLAIN = {"algorithm.refer.enabled": False}
FIFO = {"replay.remover": "fifo"}


@pytest.mark.parametrize(
    ("preset", "changes", "key"),
    [
        ("ddpg", {"algorithm.exploration-theta": 0.3}, "algorithm.exploration-theta"),
        ("ddpg", DRIFTING, "algorithm.exploration"),
        ("naf", PLAIN, "replay.remover"),
        ("racer", {"network.separate-critic": True}, "network.separate-critic"),
        ("sac_pendulum", {"network.initial-std": 0.5}, "network.initial-std"),
        ("racer", {"algorithm.refresh-tolerance": 0.5}, "algorithm.refresh-tolerance"),
        ("racer", {"algorithm.refresh-interval": 9, "algorithm.refresh": "per_sample"}, "algorithm.refresh-interval"),
        ("racer", {"algorithm.reward-interval": 9, "algorithm.normalize-rewards": False}, "algorithm.reward-interval"),
        ("racer", {"algorithm.refer.tolerance": 0.2} | PLAIN | FIFO, "algorithm.refer.tolerance"),
        ("cartpole", {"algorithm.refer.c": 2.0}, "algorithm.refer.c"),
        ("racer", {"replay.priority-uniform": 0.5}, "replay.priority-uniform"),
        ("cartpole", TOGETHER, "learner.batches-per-draw"),
        ("ddpg", DRIFTING | PLAIN | {"replay.remover": "fifo", "algorithm.exploration-theta": 0.3}, ""),
        ("racer", {"algorithm.refresh-tolerance": 0.5, "algorithm.refresh": "early_stop"}, ""),
    ],
)
def test_settings_without_effect_are_pointed_out(preset, changes, key):
    assert [warning.key for warning in load_preset(preset, changes).warnings()] == [key] * bool(key)


@pytest.mark.parametrize(("preset", "factor"), [("racer", 2), ("reactor_cartpole", 1)])
def test_only_single_steps_are_drawn_several_batches_at_a_time(preset, factor):
    def most_drawn(batches: int) -> int:
        config = load_preset(preset, {"learner.batches-per-draw": batches, "runtime": "local"})
        return plan_member(config).replay.rate.max_sample_steps

    assert most_drawn(8) == factor * most_drawn(4)


def test_a_part_of_a_batch_is_never_empty():
    load_preset("ppo", {"algorithm.num-minibatches": 2048}).check()
    with pytest.raises(ConfigError, match="num-minibatches: must be at most the 2048 env steps of a batch, got 2049"):
        load_preset("ppo", {"algorithm.num-minibatches": 2049}).check()


def test_a_remover_that_nobody_counts_for_is_pointed_out():
    (warning,) = load_preset("cartpole", {"replay.remover": "far_policy"}).warnings()
    assert str(warning).startswith("replay.remover: far_policy removes like fifo: laser does not mark")
    assert not list(
        load_preset("cartpole", {"replay.remover": "far_policy", "algorithm.refer.enabled": True}).warnings()
    )


@pytest.mark.parametrize(
    ("preset", "changes"), [("cartpole", {"algorithm.refer.enabled": True}), ("racer", {"replay.remover": "fifo"})]
)
def test_that_refer_forgets_by_age_is_pointed_out(preset, changes):
    (warning,) = load_preset(preset, changes).warnings()
    assert str(warning).startswith("replay.remover: fifo does not remove first the episode furthest from the policy")
