"""An environment that fails now and then, more often than any fixed budget allows: no id of an unroll repeats."""

from __future__ import annotations

import dataclasses

import pytest

from launch.errors import LaunchError
from launch.presets import load_preset
from launch.train import train
from replay_server.serving.shard import Shard

FRAGILE = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Fragile(CartPoleEnv):
    num_steps = 0

    def step(self, action):
        Fragile.num_steps += 1
        if Fragile.num_steps % 70 == 0:
            raise RuntimeError("the wheel came off")
        return super().step(action)

gymnasium.register("Fragile-v0", Fragile)
"""
MAX_RESTARTS = 2


def config(path, steps, resume=False, window=60):
    whole = load_preset("cartpole")
    return dataclasses.replace(
        whole,
        env="fragile_environment:Fragile-v0",
        replay=dataclasses.replace(whole.replay, capacity_steps=2000, min_steps=128),
        environment=dataclasses.replace(
            whole.environment, max_restarts=MAX_RESTARTS, restart_window_steps=float(window)
        ),
        run_dir=path,
        steps=steps,
        num_envs=1,
        num_actors=1,
        runtime="lockstep",
        resume=resume,
        quiet=True,
    )


@pytest.fixture
def inserted(tmp_path, monkeypatch):
    """Return the ids of all unrolls that shards receive from now on."""
    (tmp_path / "fragile_environment.py").write_text(FRAGILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    ids, insert = [], Shard.insert

    def note(shard, unrolls):
        names = ("run", "actor", "incarnation", "environment", "sequence")
        ids.extend(tuple(int(header[name]) for name in names) for header in unrolls.headers)
        return insert(shard, unrolls)

    monkeypatch.setattr(Shard, "insert", note)
    return ids


def test_the_budget_renews_and_no_unroll_id_repeats_after_a_resume(tmp_path, inserted):
    least = 3 * MAX_RESTARTS + 1
    first = train(config(tmp_path / "run", 70 * (least + 1)))
    incarnations = {id[2] for id in inserted}
    assert len(incarnations) > least
    num_first = len(inserted)
    second = train(config(tmp_path / "run", 140 * (least + 1), resume=True))
    assert second.env_steps > first.env_steps
    assert len(inserted) > num_first
    assert not {id[2] for id in inserted[num_first:]} & incarnations
    assert len(set(inserted)) == len(inserted)
    assert second.ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}
    reasons = second.ledger["reasons"]
    assert reasons["duplicates"] == reasons["lost"] == 0
    assert second.ledger["stages"]["made"] == second.ledger["stages"]["received"] == len(inserted)


@pytest.mark.usefixtures("inserted")
def test_an_environment_that_fails_too_often_within_the_window_ends_the_run_with_its_own_words(tmp_path):
    with pytest.raises(LaunchError, match=r"max-restarts allows; its last error: .*the wheel came off"):
        train(config(tmp_path / "run", 10_000, window=70 * MAX_RESTARTS * 2))
