"""Whole sweeps, small: repeatable in lockstep, shared or not, at the same pace, continued, and evolving."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from launch.config import TrainConfig
from launch.errors import NothingToResumeError
from launch.evaluate import evaluate, load_policy
from launch.metrics_db import read_names, read_series
from launch.population import PbtConfig
from launch.presets import change, load_preset
from launch.run_directory import newest_run
from launch.sweep import SweepResult, sweep
from launch.sweep_config import SweepConfig, SweepOptions
from learner.checkpoint import load_newest_checkpoint

GRID = {"algorithm.learning-rate": [3e-3, 1e-3], "algorithm.entropy-cost": [0.01, 0.05]}
SMALL = {
    "steps": 512,
    "quiet": True,
    "num_envs": 4,
    "replay.capacity-steps": 2000,
    "replay.min-steps": 128,
    "stop_at_return": float("inf"),
}


def small(path, grid=GRID, pbt=None, share_replay=True, seeds=1, **changes) -> SweepConfig:
    base: TrainConfig = change(load_preset("cartpole"), SMALL | changes)
    base = dataclasses.replace(base, run_dir=path)
    options = SweepOptions(seeds=seeds, share_replay=share_replay, pbt=pbt is not None)
    return SweepConfig(base, grid, options, pbt or PbtConfig())


def weights(result: SweepResult) -> dict[str, torch.Tensor]:
    found = {}
    for member in result.members:
        checkpoint, warnings = load_newest_checkpoint(member.result.run_dir / "checkpoints")
        assert not warnings
        for group in ("networks", "optimizer"):
            found |= {f"{member.number}/{group}/{name}": item for name, item in checkpoint.tensors[group].items()}
    return found


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert set(one) == set(other)
    return all(torch.equal(value, other[name]) for name, value in one.items())


def newest(path, name):
    return read_series(path / "metrics.db", name)[-1][1]


@pytest.mark.parametrize("share_replay", [True, False])
def test_a_lockstep_sweep_repeats_bit_by_bit(tmp_path, share_replay):
    first = sweep(small(tmp_path / "a", share_replay=share_replay))
    second = sweep(small(tmp_path / "b", share_replay=share_replay))
    assert same(weights(first), weights(second))
    assert [item.result.env_steps for item in first.members] == [item.result.env_steps for item in second.members]
    steps = [item.result.env_steps for item in first.members]
    assert min(steps) >= 512
    assert max(steps) - min(steps) <= 4 * 16, "members take turns"
    learned = weights(first)
    assert not torch.equal(learned["0/networks/" + _one(learned)], learned["1/networks/" + _one(learned)])


def _one(learned):
    return next(name.removeprefix("0/networks/") for name in learned if name.startswith("0/networks/"))


def test_sharing_changes_what_members_learn_from(tmp_path):
    shared = sweep(small(tmp_path / "shared"))
    alone = sweep(small(tmp_path / "alone", share_replay=False))
    assert not same(weights(shared), weights(alone))
    for result, sources in ((shared, {"online", "own_replay", "foreign_replay"}), (alone, {"online", "own_replay"})):
        for member in result.members:
            path = member.result.run_dir
            names = set(read_names(path / "metrics.db"))
            for what in ("accept_fraction", "abs_log_rho"):
                assert {name.removeprefix(f"{what}_") for name in names if name.startswith(what)} == sources
            steps = {source: newest(path, f"num_steps_{source}") for source in ("own_replay", "foreign_replay")}
            if result is shared:
                # Uniform over all: three of four replayed unrolls are others'.
                assert steps["foreign_replay"] == pytest.approx(3 * steps["own_replay"], rel=0.3)
            else:
                assert steps["foreign_replay"] == 0
            # Lags are told of own experience only: versions of others are no measure of distance.
            assert newest(path, "totals/policy_lag_sum/replayed") >= 0


def test_a_sweep_of_one_point_is_the_run_itself(tmp_path):
    """The same seeds everywhere, so a member is what `laser train` with its config gives."""
    from launch.train import train

    result = sweep(small(tmp_path / "sweep", {"seed": [5, 6]}, share_replay=False))
    config = dataclasses.replace(small(tmp_path / "x").base, seed=6, run_dir=tmp_path / "alone")
    train(config)
    alone, _ = load_newest_checkpoint(tmp_path / "alone" / "checkpoints")
    member = {name: item for name, item in weights(result).items() if name.startswith("1/networks/")}
    assert all(torch.equal(item, alone.tensors["networks"][name[11:]]) for name, item in member.items())


def test_a_resumed_sweep_equals_one_that_was_never_interrupted(tmp_path):
    values = {"checkpoint_replay": True}
    whole = sweep(small(tmp_path / "whole", **values, steps=1024))
    sweep(small(tmp_path / "parts", **values, steps=512))
    again = sweep(small(tmp_path / "parts", **values, steps=1024, resume=True))
    assert same(weights(whole), weights(again))


def test_what_a_sweep_leaves_behind(tmp_path):
    result = sweep(small(tmp_path / "runs" / "s", {"algorithm.learning-rate": [3e-3, 1e-3]}, seeds=2))
    value = result.to_json()
    assert len(value["members"]) == 4
    assert value["env_steps"] == sum(member["env_steps"] for member in value["members"])
    assert value["members"][2]["overrides"] == {"algorithm.learning-rate": 1e-3}
    assert len({member["seed"] for member in value["members"]}) == 4
    record = json.loads((tmp_path / "runs" / "s" / "config.json").read_text())
    assert record["sweep"]["grid"] == {"algorithm.learning-rate": ["0.003", "0.001"]}
    member = json.loads((tmp_path / "runs" / "s" / "members" / "2" / "config.json").read_text())
    assert member["member"] == {"index": 2, "overrides": {"algorithm.learning-rate": "0.001"}}
    assert member["config"]["algorithm"]["learning_rate"] == 1e-3
    assert evaluate(result.members[2].result.run_dir, 2, num_envs=2, quiet=True).env_steps >= 512
    with pytest.raises(NothingToResumeError, match="members/0"):
        load_policy(tmp_path / "runs" / "s")
    assert len(evaluate(tmp_path / "runs" / "s", 2, num_envs=2, quiet=True).members) == 4
    with pytest.raises(NothingToResumeError, match="no run"):
        newest_run("cartpole", None, tmp_path / "runs")
    assert newest_run("cartpole", None, tmp_path / "runs", of_sweeps=True) == tmp_path / "runs" / "s"


@pytest.mark.parametrize("share_replay", [True, False])
def test_threads_keep_pace(tmp_path, share_replay):
    values = {"runtime": "local", "steps": 3000, "num_envs": 2, "replay.num-shards": 2}
    result = sweep(small(tmp_path / "run", share_replay=share_replay, **values))
    steps = [member.result.env_steps for member in result.members]
    assert all(member.result.finished == "steps" for member in result.members)
    assert max(steps) <= 1.05 * min(steps)
    assert min(member.result.learner_steps for member in result.members) > 20
