"""Names of actions, and rewards in the units of the value."""

import pytest

from launch.dashboard.action_names import action_names
from launch.dashboard.player import learned_reward
from launch.presets import change, load_preset


def test_actions_have_names_where_they_are_known():
    assert action_names("CartPole-v1", 2) == ["push left", "push right"]
    assert action_names("mine:World", 2) == ["action 0", "action 1"]
    assert action_names("CartPole-v1", 3) == ["action 0", "action 1", "action 2"]


def test_atari_games_name_their_own_actions():
    assert action_names("ALE/Pong-v5", 6) == ["noop", "fire", "right", "left", "rightfire", "leftfire"]
    assert len(set(action_names("ALE/Pong-v5", 18, full_action_space=True))) == 18


@pytest.mark.parametrize(("scale", "learned"), [(1.0, 5.0), (0.1, 0.5)])
def test_a_reward_is_scaled_as_the_value_is(scale, learned):
    values = {"algorithm.reward-scale": scale, "algorithm.reward-transform": "none"}
    config = change(load_preset("cartpole"), values)
    assert learned_reward(config.algorithm, 5.0) == pytest.approx(learned)
