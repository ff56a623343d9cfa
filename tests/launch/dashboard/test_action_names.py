"""Names of actions."""

from launch.dashboard.action_names import action_names


def test_actions_have_names_where_they_are_known():
    assert action_names("CartPole-v1", 2) == ["push left", "push right"]
    assert action_names("mine:World", 2) == ["action 0", "action 1"]
    assert action_names("CartPole-v1", 3) == ["action 0", "action 1", "action 2"]


def test_atari_games_name_their_own_actions():
    assert action_names("ALE/Pong-v5", 6) == ["noop", "fire", "right", "left", "rightfire", "leftfire"]
    assert len(set(action_names("ALE/Pong-v5", 18, full_action_space=True))) == 18
