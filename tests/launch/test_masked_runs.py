"""Whole runs in an environment that raises on a forbidden action: training, evaluation, a loaded policy, the player."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import sys

import pytest
import torch
from saved_runs import weights

import laser
from laser.algorithms.dqn import Dqn
from laser.algorithms.impala import Impala
from laser.algorithms.reactor import Reactor
from laser.config import ConfigError
from laser.environments import describe_environment
from laser.specs import ACTION_MASK
from launch.dashboard.player import play
from launch.errors import NothingToResumeError
from launch.planning.plan import make_plan
from launch.presets import load_preset
from launch.settings.json_form import config_from_json, config_to_json

sys.path.append(str(pathlib.Path(__file__).parents[1] / "contracts"))
from masked_worlds import Gates

SMALL = {
    "env": Gates,
    "runtime": "lockstep",
    "quiet": True,
    "num-envs": 4,
    "unroll-length": 8,
    "learner.compile": "off",
    "network.hidden-sizes": (8,),
    "steps": 2000,
    "evaluation.interval": 1000,
    "evaluation.episodes": 2,
}
DRAWN = {"replay.min-steps": 64, "algorithm.batch-size": 4, "replay.samples-per-insert": 1.0}
SEVERAL = {"environment.kwargs.several": True, "environment.kwargs.parts": True}
BRIEF = {"algorithm.num-epochs": 2, "algorithm.num-minibatches": 2}
RAINBOW = DRAWN | {
    "steps": 1000,
    "environment.kwargs.place": "observation",
    "environment.life-loss-ends-episode": False,
    "network.torso": "auto",
    "algorithm.head-size": 8,
    "algorithm.epsilon": 0.2,
    "replay.importance-schedule": "constant",
}
CASES = {
    "impala": ("impala_cartpole", {}),
    "laser": ("cartpole", {}),
    "laser, several": ("cartpole", SEVERAL),
    "laser, pulled": ("cartpole", {"algorithm.refer.enabled": True}),
    "laser, memory": ("cartpole", {"network.separate-critic": False, "network.core": "lstm", "network.core-size": 8}),
    "ppo, several": ("ppo", SEVERAL | {"environment.kwargs.place": "observation"} | BRIEF),
    "acer": ("acer_cartpole", DRAWN),
    "reactor": ("reactor_cartpole", DRAWN | {"algorithm.exploration": 0.5}),
    "dqn": ("dqn_cartpole", DRAWN | {"algorithm.epsilon": 0.5}),
    "rainbow": ("rainbow", RAINBOW),
}


def config_for(name, path, **changes):
    preset, values = CASES[name]
    return load_preset(preset, SMALL | values | {"run-dir": path} | changes)


def play_by_hand(run_dir, place, kwargs, greedy):
    """Play with a loaded policy; the environment raises if an action is forbidden."""
    policy = laser.load_policy(run_dir, greedy=greedy)
    environment = Gates(**kwargs)
    num_episodes = 0
    observation, info = environment.reset(seed=3)
    for _ in range(100):
        mask = {} if place == "observation" else {"action_mask": info["action_mask"]}
        observation, _, terminated, truncated, info = environment.step(policy.act(observation, **mask))
        if terminated or truncated:
            num_episodes += 1
            policy.reset()
            observation, info = environment.reset()
    assert num_episodes > 3


@pytest.mark.parametrize("name", CASES)
def test_no_forbidden_action_is_taken(name, tmp_path):
    config = config_for(name, tmp_path / "run")
    result = laser.train(config)
    assert result.finished == "steps"
    assert result.learner_steps > 30
    assert all(value.isfinite().all() for value in weights(tmp_path / "run").values())
    assert laser.evaluate(tmp_path / "run", 20, num_envs=2, quiet=True).mean_return is not None
    kwargs = dict(config.environment.kwargs)
    for greedy in (False, True):
        play_by_hand(tmp_path / "run", kwargs.get("place", "info"), kwargs, greedy)
    frames = list(itertools.islice(play(tmp_path / "run"), 60))
    assert max(frame["episode"] for frame in frames) > 1
    assert any(0.0 in frame["probabilities"][0] for frame in frames)


def test_members_of_one_replay_have_masks_all_or_none(tmp_path):
    config = config_for("laser", tmp_path / "run")
    other = config_for("laser", tmp_path / "run", **{"environment.action-masks": "off"})
    make_plan([config, config], share_replay=True)
    with pytest.raises(ConfigError, match="cannot learn from each other: their action masks are given and missing"):
        make_plan([config, other], share_replay=True)


def test_a_run_from_before_masks_goes_on_without_them(tmp_path):
    """Taxi has always given a mask, which was ignored."""
    config = config_for("laser", tmp_path / "run", env="Taxi-v4", steps=64)
    record = config_to_json(config)
    del record["environment"]["action_masks"]
    old = config_from_json(record)
    assert describe_environment(config.env, config.environment).has_action_masks
    assert not describe_environment(old.env, old.environment).has_action_masks
    laser.train(old)
    again = dataclasses.replace(config, resume=True, steps=128)
    with pytest.raises(NothingToResumeError, match=r"^environment.action-masks: .* without action masks; use off"):
        laser.train(again)
    assert laser.train(dataclasses.replace(again, environment=old.environment)).env_steps >= 128


def test_a_network_of_a_user_need_not_know_of_masks(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parents[2] / "docs" / "examples"))
    from own_network import ResidualConfig

    config = config_for("laser", tmp_path / "run", steps=320)
    config = dataclasses.replace(config, network=ResidualConfig())
    assert laser.train(config).finished == "steps"
    play_by_hand(tmp_path / "run", "info", {}, greedy=False)


@pytest.mark.parametrize(("name", "kind"), [("laser", Impala), ("reactor", Reactor), ("dqn", Dqn)])
def test_every_row_of_a_batch_has_the_mask_of_its_observation(name, kind, tmp_path, monkeypatch):
    batches = []

    def keep(self, networks, targets, batch, *rest):
        batches.append(batch)
        return loss(self, networks, targets, batch, *rest)

    loss = kind.loss
    monkeypatch.setattr(kind, "loss", keep)
    laser.train(config_for(name, tmp_path / "run", steps=640, **{"algorithm.num-steps": 3} if name == "dqn" else {}))
    assert len(batches) > 10
    num_open = 0
    for batch in batches:
        mask, seen = batch.observations[ACTION_MASK], batch.observations["observation"]
        assert mask.dtype == torch.bool
        allowed = torch.where(seen[..., 2] > 0, mask.float().mean(-1), 0.0)  # a terminal state has no mask of its own
        torch.testing.assert_close(allowed, seen[..., 2])
        taken = mask[:-1].gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
        assert taken[batch.valid].all()
        num_open += int((mask[-1].any(-1) & ~mask[-1].all(-1)).sum())
    assert num_open > 30
