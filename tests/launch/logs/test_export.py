"""A saved replay as a data set: every step is one that the environment could make, and none is lost or added."""

import dataclasses

import gymnasium
import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, describe_environment
from laser.environments.pictures import PictureRule
from laser.logs.minari_log import MinariLog
from launch.errors import NothingToResumeError
from launch.logs.export import export_replay
from launch.logs.options import ReplayOptions
from launch.presets import load_preset
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig, SweepOptions
from launch.train import train

NAME = "minari:tests/replay-v0"


@pytest.fixture(autouse=True)
def data_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))


def small(path, preset="cartpole", **changes):
    values = {"steps": 1500, "quiet": True, "run_dir": path, "checkpoint_replay": True, "replay.min_steps": 128}
    return load_preset(preset, {**values, **changes})


def episodes_of(env, name=NAME, pictures=PictureRule(10)):
    log = MinariLog(name, describe_environment(env, EnvironmentConfig()), pictures)
    return [log.episode(number) for number in range(len(log))]


def test_every_exported_step_is_one_of_the_environment(tmp_path):
    config = small(tmp_path / "run", **{"replay.capacity_steps": 100_000, "replay.num_shards": 2, "num_actors": 2})
    result = train(config)
    exported = export_replay(tmp_path / "run", NAME, ReplayOptions())
    episodes = episodes_of("CartPole-v1")
    # The final observation of an episode that ends with the run would have come with the next unroll.
    assert result.episodes - 2 * 8 < exported.episodes == len(episodes) <= result.episodes
    assert exported.env_steps == sum(map(len, episodes))
    assert exported.mean_return == pytest.approx(np.mean([episode.rewards.sum() for episode in episodes]))
    assert result.env_steps - exported.env_steps < 16 * 500  # those of the episodes under way
    physics = gymnasium.make("CartPole-v1").unwrapped
    for episode in episodes:
        seen = episode.observations["observation"]
        for t, action in enumerate(episode.actions):
            physics.reset()
            physics.state = seen[t].astype(np.float64)
            after, reward, terminated, _, _ = physics.step(int(action))
            np.testing.assert_allclose(seen[t + 1], after, atol=1e-5)
            assert reward == episode.rewards[t]
            assert terminated == (episode.terminated and t == len(episode) - 1)
        probabilities = np.exp(episode.mu["logits"]) / np.exp(episode.mu["logits"]).sum(1, keepdims=True)
        assert probabilities[np.arange(len(episode)), episode.actions].min() > 1e-4
        assert (np.diff(episode.versions) >= 0).all()


def test_episodes_that_have_lost_their_first_rows_are_left_out(tmp_path):
    result = train(small(tmp_path / "run", **{"replay.capacity_steps": 1000, "steps": 3000}))
    exported = export_replay(tmp_path / "run", NAME, ReplayOptions())
    assert 0 < exported.episodes < result.episodes
    for episode in episodes_of("CartPole-v1"):
        assert np.abs(episode.observations["observation"][0]).max() <= 0.05  # CartPole begins so


def test_pictures_are_exported_as_agents_saw_them(tmp_path):
    train(small(tmp_path / "run", "mini", env="mini/Catch-v0", steps=600))
    export_replay(tmp_path / "run", NAME, ReplayOptions())
    for episode in episodes_of("mini/Catch-v0", pictures=PictureRule(5)):
        (pictures,) = episode.observations.values()
        assert pictures.sum(axis=tuple(range(1, pictures.ndim))).min() > 0  # a ball and a paddle in each
        assert len(np.unique(pictures, axis=0)) > 1


def test_a_shared_replay_is_exported_as_one_with_its_members(tmp_path):
    base = small(tmp_path / "sweep", steps=800)
    options = SweepOptions(seeds=2)
    sweep(SweepConfig(base, {}, options))
    exported = export_replay(tmp_path / "sweep", NAME, ReplayOptions())
    members = {episode.member for episode in episodes_of("CartPole-v1")}
    assert members == {0, 1}
    assert exported.episodes == len(episodes_of("CartPole-v1"))


def test_what_cannot_be_exported_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="name: must be minari:NAMESPACE/NAME-vN, got 'mine'"):
        export_replay(tmp_path, "mine", ReplayOptions())
    with pytest.raises(NothingToResumeError, match="holds no run"):
        export_replay(tmp_path, NAME, ReplayOptions())
    config = small(tmp_path / "run", steps=400)
    train(dataclasses.replace(config, checkpoint_replay=False))
    with pytest.raises(NothingToResumeError, match="saved no replay; train with --checkpoint-replay"):
        export_replay(tmp_path / "run", NAME, ReplayOptions())
    sweep(SweepConfig(small(tmp_path / "apart", steps=400), {}, SweepOptions(seeds=2, share_replay=False)))
    with pytest.raises(NothingToResumeError, match=r"a replay each; choose a member, e\.g\. .*/apart/members/0"):
        export_replay(tmp_path / "apart", NAME, ReplayOptions())
