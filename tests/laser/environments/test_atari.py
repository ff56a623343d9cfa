import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from laser.environments import EnvironmentConfig, default_emulation_threads, describe_environment, make_environment
from laser.environments.atari_screen import AtariScreen
from laser.specs import DiscreteActions, FramesSpec


def play(num_steps, num_envs=2, seed=1, **config):
    """Return frames, rewards and ends of a game of Breakout with fixed actions."""
    environment = make_environment("ALE/Breakout-v5", num_envs, EnvironmentConfig(**config))
    frames = [environment.reset(seed)["observation"]]
    rewards, ends = [], []
    for step in range(num_steps):
        environment.send(np.full(num_envs, (1, 2, 3, 0)[step // 3 % 4]))
        (part,) = environment.recv()
        frames.append(part.observations["observation"])
        rewards.append(part.rewards)
        ends.append((part.terminated, part.truncated))
    environment.close()
    return np.stack(frames), np.stack(rewards), np.array(ends)


def test_the_spec_follows_the_flags():
    spec = describe_environment("ALE/Pong-v5", EnvironmentConfig(frame_stack=2, frame_skip=3))
    assert spec.observations == {"observation": FramesSpec((84, 84), 2, "zeros")}
    assert spec.action_repeat == 3
    assert spec.actions.num_actions == 6
    assert describe_environment("ALE/Pong-v5", EnvironmentConfig(full_action_space=True)).actions.num_actions == 18


def test_the_full_action_set_is_the_same_for_every_game():
    config = EnvironmentConfig(full_action_space=True, emulation_threads=1)
    environment = make_environment("ALE/Skiing-v5", 1, config)  # has no button, so its emulator offers fewer
    assert environment.spec.actions == describe_environment("ALE/Pong-v5", config).actions == DiscreteActions(18)
    offered = [action.name for action in environment._environments.ale.get_action_set()]
    meant = [offered[index] for index in environment._indices_of_actions]
    assert meant[:6] == ["NOOP", "NOOP", "UP", "RIGHT", "LEFT", "DOWN"]
    assert meant[10:] == meant[2:10]
    environment.close()
    pong = make_environment("ALE/Pong-v5", 1, config)
    assert pong._indices_of_actions.tolist() == list(range(18))
    pong.close()


def test_every_flag_of_the_protocol_reaches_the_emulator():
    frames, _, ends = play(60)
    assert not ends[:, 1].any()
    for changed in ({"sticky_actions": 0.5}, {"max_noops": 0}, {"frame_skip": 2}):
        assert not np.array_equal(play(60, **changed)[0], frames), changed
    assert play(60, max_episode_frames=100)[2][:, 1].any()
    ends_with_lives = play(60, life_loss_ends_episode=True)[2]
    assert ends_with_lives[:, 0].sum() > ends[:, 0].sum()


def test_the_number_of_threads_changes_nothing():
    np.testing.assert_array_equal(play(20, emulation_threads=1)[0], play(20, emulation_threads=2)[0])


def test_rewards_are_not_clipped():
    environment = make_environment("ALE/SpaceInvaders-v5", 2, EnvironmentConfig())
    environment.reset(0)
    largest = 0.0
    for _ in range(150):
        environment.send(np.array([1, 1]))
        largest = max(largest, environment.recv()[0].rewards.max())
    environment.close()
    assert largest >= 5


def test_emulation_runs_while_python_does_something_else():
    environment = make_environment("ALE/Pong-v5", 4, EnvironmentConfig(emulation_threads=1))
    environment.reset(None)
    environment.send(np.zeros(4, np.int64))
    time.sleep(0.2)  # far longer than the step takes
    begun = time.perf_counter()
    environment.recv()
    waited = time.perf_counter() - begun
    environment.send(np.zeros(4, np.int64))
    running = threading.Event()
    threading.Thread(target=running.set).start()
    environment.recv()
    assert running.wait(5)
    environment.close()
    assert waited < 0.1


def step(environment, action):
    environment.send(np.full(environment.num_envs, action))
    (part,) = environment.recv()
    return part


@pytest.mark.parametrize("config", [
    EnvironmentConfig(sticky_actions=0.25, frame_skip=4),
    EnvironmentConfig(sticky_actions=0.25, full_action_space=True, life_loss_ends_episode=True, max_noops=30),
], ids=["as it is", "other flags"])  # fmt: skip
def test_the_picture_shows_in_colour_what_the_agent_sees_in_grey(config):
    environment = make_environment("ALE/Breakout-v5", 2, config)
    assert environment.render() is None
    environment.reset(3)
    rng = np.random.default_rng(0)
    ends, rewards, colours = 0, 0.0, []
    for number in range(400):
        part = step(environment, int(rng.integers(environment.spec.actions.num_actions)))
        ends, rewards = ends + int(part.terminated[0]), rewards + part.rewards[0]
        if number % 7 == 0:
            picture = environment.render()
            # The agent's picture is smaller, and its grey is a weighted sum of the colours.
            grey = picture @ np.array([0.299, 0.587, 0.114])
            seen = part.observations["observation"][0, -1]
            small = interpolate(torch.from_numpy(grey)[None, None], (84, 84), mode="area")[0, 0].numpy()
            difference = np.abs(small - seen)
            assert difference.mean() < 2
            assert np.quantile(difference, 0.99) < 30
            colours.append(len(np.unique(picture.reshape(-1, 3), axis=0)))
    environment.close()
    assert picture.shape == (210, 160, 3)
    assert min(colours) >= 6  # six rows of bricks
    assert ends >= 1
    assert rewards >= 1


def test_a_game_without_a_seed_or_long_out_of_sight_is_drawn_as_the_agent_sees_it():
    environment = make_environment("ALE/Pong-v5", 1, EnvironmentConfig())
    observations = environment.reset(None)
    np.testing.assert_array_equal(environment.render()[..., 1], observations["observation"][0, -1])
    environment.reset(0)
    for _ in range(80):
        part = step(environment, 0)
    np.testing.assert_array_equal(environment.render()[..., 1], part.observations["observation"][0, -1])
    environment.reset(0)
    assert environment.render().shape == (210, 160, 3)
    environment.close()


def test_a_screen_whose_rewards_differ_from_the_games_shows_nothing():
    def make():
        return SimpleNamespace(
            reset=lambda seed: (np.zeros((1, 1, 210, 160, 3), np.uint8), {}),
            step=lambda action: (np.ones((1, 1, 210, 160, 3), np.uint8), np.array([1.0])),
        )

    screen = AtariScreen(make)
    screen.begin(3)
    screen.follow(0, 1.0)
    assert screen.picture().max() == 1
    screen.follow(0, 2.0)
    assert screen.picture() is None


def test_an_emulator_cannot_be_restored():
    environment = make_environment("ALE/Pong-v5", 1, EnvironmentConfig())
    assert environment.state_dict() is None
    with pytest.raises(NotImplementedError, match="begin new episodes"):
        environment.load_state_dict({})
    environment.close()


def test_actors_share_half_of_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert [default_emulation_threads(num_actors) for num_actors in (1, 2, 4, 12)] == [8, 4, 2, 1]


@pytest.mark.parametrize(("num_envs", "config", "expected"), [
    (4, EnvironmentConfig(), 2), (1, EnvironmentConfig(), 1), (4, EnvironmentConfig(emulation_threads=3), 3),
])  # fmt: skip
def test_an_actor_emulates_with_its_share_unless_told_otherwise(monkeypatch, num_envs, config, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    asked = []

    def make(game, count, **settings):
        asked.append(settings["num_threads"])
        raise RuntimeError("seen")

    monkeypatch.setattr("ale_py.vector_env.AtariVectorEnv", make)
    with pytest.raises(Exception, match="seen"):
        make_environment("ALE/Pong-v5", num_envs, config, num_actors=4)
    assert asked == [expected]


@pytest.mark.parametrize("fires", [True, False])
def test_fire_is_pressed_at_an_episodes_start_only_if_asked_for(fires):
    # Breakout's ball lies still until fire is pressed: no-ops then change nothing.
    config = EnvironmentConfig(fire_at_reset=fires, max_noops=0)
    environment = make_environment("ALE/Breakout-v5", 1, config)
    first = environment.reset(1)["observation"]
    for _ in range(30):
        environment.send(np.zeros(1, np.int64))
        (part,) = environment.recv()
    newest = part.observations["observation"]
    assert bool((newest[0, -1] != first[0, -1]).any()) == fires
    environment.close()
