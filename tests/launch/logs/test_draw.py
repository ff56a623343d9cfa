"""Draws from a saved replay: what is drawn is stored, as often as the sampler's numbers say."""

import json
from collections import Counter

import gymnasium
import numpy as np
import pytest

from laser.config import ConfigError
from launch.__main__ import main
from launch.errors import CannotCreateError, NothingToResumeError
from launch.logs.draw import draw_replay
from launch.logs.options import DrawOptions
from launch.presets import load_preset
from launch.train import train

SMALL = {"steps": 600, "quiet": True, "checkpoint_replay": True, "replay.min_steps": 100, "num_envs": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of DQN with prioritised draws, which saved its replay on two shards."""
    path = tmp_path_factory.mktemp("runs") / "dqn"
    values = {"replay.sampler": "per", "replay.num_shards": 2, "num_actors": 2, "runtime": "lockstep"}
    train(load_preset("dqn_cartpole", {**SMALL, **values, "run_dir": path}))
    return path


def drawn(run, tmp_path, **options):
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.npz"
    result = draw_replay(run, path, DrawOptions(**options))
    with np.load(path) as arrays:
        return result, dict(arrays)


def test_every_drawn_step_is_one_of_the_environment(run, tmp_path):
    result, arrays = drawn(run, tmp_path, items=300)
    assert (result.items, result.view, result.sampler) == (300, "steps", "per")
    assert arrays["observations/observation"].shape == (300, 2, 4)
    assert arrays["valid"].all()
    physics = gymnasium.make("CartPole-v1").unwrapped
    n_step = load_preset("dqn_cartpole").algorithm.steps_per_item
    for (before, after), action, reward in zip(
        arrays["observations/observation"], arrays["actions"][:, 0], arrays["rewards"][:, 0], strict=True
    ):
        assert reward > 0
        if n_step == 1:
            physics.reset()
            physics.state = before.astype(np.float64)
            np.testing.assert_allclose(physics.step(int(action))[0], after, atol=1e-5)


def test_draws_follow_the_priorities_that_the_learner_wrote(run, tmp_path):
    """Within a shard an item's probability grows with its number; steps with large errors come more often."""
    _, by_error = drawn(run, tmp_path, items=4_000)
    _, uniform = drawn(run, tmp_path, items=4_000, uniform=True)
    error, of_all = (np.abs(arrays["columns/priority"][:, 0]) for arrays in (by_error, uniform))
    # An item that was never drawn has the column's initial number, and the largest weight.
    known = of_all > 0
    assert error.mean() > of_all[known].mean()
    np.testing.assert_allclose(uniform["probabilities"], uniform["probabilities"][0])
    assert len(set(by_error["probabilities"].tolist())) > 20
    item = Counter(map(tuple, by_error["observations/observation"][:, 0].tolist()))
    most = max(item, key=item.get)
    probability = by_error["probabilities"][by_error["observations/observation"][:, 0].tolist().index(list(most))]
    assert item[most] / 4_000 == pytest.approx(probability, abs=5 * np.sqrt(probability / 4_000))


def test_the_same_seed_draws_the_same(run, tmp_path):
    first, second, other = (drawn(run, tmp_path, items=20, seed=seed)[1] for seed in (0, 0, 1))
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])
    assert not np.array_equal(first["step_in_episode"], other["step_in_episode"])


def test_sequences_are_drawn_too(tmp_path, capsys):
    path = tmp_path / "laser"
    values = {"replay.sequence_starts": "step", "runtime": "lockstep", "run_dir": path}
    train(load_preset("cartpole", {**SMALL, **values}))
    assert main(["replay", "draw", str(path), str(tmp_path / "draws.npz"), "--items", "7", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["items"], found["view"], found["sampler"]) == (7, "sequences", "uniform")
    length = load_preset("cartpole").unroll_length
    with np.load(tmp_path / "draws.npz") as arrays:
        assert arrays["observations/observation"].shape == (7, length + 1, 4)
        assert arrays["rewards"].shape == (7, length)
    with pytest.raises(CannotCreateError, match=r"draws.npz exists"):
        draw_replay(path, tmp_path / "draws.npz", DrawOptions())
    with pytest.raises(
        ConfigError, match="uniform: is for agents that draw single steps, and this one draws sequences"
    ):
        draw_replay(path, tmp_path / "other.npz", DrawOptions(uniform=True))


@pytest.mark.parametrize("name", ["x.csv", "x", "x.npz.gz", "."])
def test_a_file_of_another_kind_is_refused_before_anything_is_drawn(tmp_path, capsys, name):
    assert main(["replay", "draw", str(tmp_path / "no run"), name]) == 2
    line = f"error: file: must end in .npz, got {name}; choose a name such as draws.npz\n"
    assert capsys.readouterr().err == line


def test_what_cannot_be_drawn_is_one_line(tmp_path):
    values = {**SMALL, "steps": 200, "runtime": "lockstep"}
    train(load_preset("cartpole", {**values, "run_dir": tmp_path / "unsaved", "checkpoint_replay": False}))
    with pytest.raises(NothingToResumeError, match="saved no replay of its own; train with --checkpoint-replay"):
        draw_replay(tmp_path / "unsaved", tmp_path / "x.npz", DrawOptions())
    recurrent = {"network.core": "lstm", "network.core_size": 4, "network.separate_critic": False}
    train(load_preset("cartpole", {**values, **recurrent, "run_dir": tmp_path / "streams"}))
    with pytest.raises(ConfigError, match="learns from episode streams, which no sampler draws"):
        draw_replay(tmp_path / "streams", tmp_path / "x.npz", DrawOptions())
    assert not (tmp_path / "x.npz").exists()
