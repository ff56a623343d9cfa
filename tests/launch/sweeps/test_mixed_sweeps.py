"""Members that run different algorithms on one replay: each learns from what the others' policies did."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import laser
from laser.config import ConfigError
from launch.dashboard.exchange_figures import exchange_figure
from launch.dashboard.library import Library
from launch.presets import change, find_presets, load_preset
from launch.records.exchange_reader import read_exchange_sums
from launch.records.metrics_db import read_series
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.sweep_result import SweepResult
from learner.checkpoint import load_newest_checkpoint

SMALL = {
    "steps": 640,
    "quiet": True,
    "num_envs": 4,
    "replay.capacity-steps": 3000,
    "stop_at_return": float("inf"),
}
PRESETS = [name for name in ("cartpole", "acer_cartpole", "reactor_cartpole") if name in find_presets()]


def mixed(path, presets=PRESETS, base="cartpole", share_replay=True, **changes) -> SweepConfig:
    config = change(load_preset(base), SMALL | {"run-dir": path} | changes)
    return SweepConfig(config, {"preset": list(presets)}, SweepOptions(share_replay=share_replay))


def weights(result: SweepResult) -> dict[str, torch.Tensor]:
    found = {}
    for member in result.members:
        checkpoint, warnings = load_newest_checkpoint(member.result.run_dir / "checkpoints")
        assert not warnings
        found |= {f"{member.number}/{name}": item for name, item in checkpoint.tensors["networks"].items()}
    return found


def newest(member, name):
    return read_series(member.result.run_dir / "metrics.db", name)[-1][1]


def test_they_learn_from_each_other_and_repeat_bit_by_bit(tmp_path):
    one, other = sweep(mixed(tmp_path / "a")), sweep(mixed(tmp_path / "b"))
    assert not any(member.error for member in one.members)
    first, second = weights(one), weights(other)
    assert set(first) == set(second)
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    for member in one.members:
        own, foreign = (newest(member, f"num_steps_{source}") for source in ("own_replay", "foreign_replay"))
        assert foreign == pytest.approx((len(PRESETS) - 1) * own, rel=0.3)
        assert newest(member, "abs_log_rho_foreign_replay") > 0
        assert member.result.learner_steps > 10
        drawn = laser.read_exchange(member.result.run_dir)
        assert set(drawn["maker"]) == set(range(len(PRESETS)))
        sums = read_exchange_sums(member.result.run_dir / "metrics.db")
        replayed = newest(member, "totals/steps_learned/replayed") + newest(member, "totals/steps_learned/online")
        assert sum(counts["steps"] for counts in sums.values()) == drawn["steps"].sum() == replayed
        # The others reject no step.
        assert all(("accepted" in counts) is (member.number == 0) for counts in sums.values())


def test_who_learns_from_whom_is_drawn_for_members_of_different_algorithms(tmp_path):
    sweep(mixed(tmp_path / "sweep"))
    library = Library(tmp_path / "sweep")
    (entry,) = [each for each in library.entries().values() if each.is_sweep]
    groups = {member.path.name: [member] for member in library.members(entry)}

    def drawn(what):
        (trace,) = exchange_figure(library, groups, what, "light")["data"]
        return np.array(trace["z"], float)

    np.testing.assert_allclose(drawn("share").sum(1), 1.0)
    assert (drawn("share") > 0).all()
    assert np.isfinite(drawn("lag")).all()
    np.testing.assert_array_equal(np.isfinite(drawn("accepted")).all(1), [True, False, False])


def test_whose_statistics_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError) as caught:
        sweep(mixed(tmp_path, ["v_racer_pendulum", "ppo_pendulum"], base="ppo_pendulum"))
    (problem,) = caught.value.problems
    assert str(problem).startswith("share-replay: members 0 and 1 cannot learn from each other: their behaviour statis")
    assert str(problem).endswith("use --no-share-replay")
    assert not (tmp_path / "members").exists()


def test_other_kinds_of_actions_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="algorithm: racer needs Box actions, CartPole-v1 has Discrete"):
        sweep(mixed(tmp_path, ["acer_cartpole", "racer_pendulum"]))


def test_agents_with_memories_of_different_kinds_share_a_replay(tmp_path):
    config = mixed(tmp_path)
    grid = config.grid | {"network.core": ["lstm"], "network.core-size": [8], "network.separate-critic": [False]}
    result = sweep(SweepConfig(config.base, grid, config.options))
    assert not any(member.error for member in result.members)
    for member in result.members:
        assert newest(member, "num_steps_foreign_replay") > 0
        assert newest(member, "abs_log_rho_foreign_replay") > 0


def test_states_of_one_name_must_be_alike(tmp_path):
    config = mixed(tmp_path, ["cartpole", "acer_cartpole"])
    grid = config.grid | {"network.core": ["lstm"], "network.core-size": [8, 4], "network.separate-critic": [False]}
    with pytest.raises(ConfigError, match="members 0 and 1 cannot learn from each other: their recurrent states are"):
        sweep(SweepConfig(config.base, grid, config.options))
