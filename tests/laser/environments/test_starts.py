"""Starts of Atari games: episodes begin where the actions of a start lead, and mistakes of a file are one line."""

import json

import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, make_environment
from laser.environments.starts import read_starts

PONG = "ALE/Pong-v5"
RIGHT, LEFT, UP = 3, 4, 2  # as ALE numbers them; Pong's own actions are 0, 1, 3, 4, 11 and 12
STARTS = [[0] * 20 + [RIGHT] * 10, [0] * 20 + [LEFT] * 10]
REPEATS = {"max_noops": 0, "fire_at_reset": False, "emulation_threads": 1}


def behind(path, starts=None, game=PONG, **config):
    file = path / "starts.json"
    file.write_text(json.dumps({game: STARTS if starts is None else starts}))
    wrapper = f"laser.environments.starts:BehindStart({json.dumps(str(file))})"
    return make_environment(game, 1, EnvironmentConfig(**REPEATS, **config, wrappers=wrapper))


def screen_after(actions, *, full=False):
    environment = make_environment(PONG, 1, EnvironmentConfig(**REPEATS, full_action_space=full))
    environment.reset(0)
    for action in actions:
        environment.send(np.array([action]))
        (part,) = environment.recv()
    environment.close()
    return part.observations["observation"][0, -1]


def first_screens(environment, num_resets):
    screens = [environment.reset(0)["observation"][0, -1]]
    screens += [environment.reset(None)["observation"][0, -1] for _ in range(num_resets - 1)]
    environment.close()
    return screens


@pytest.mark.parametrize("full", [False, True])
def test_an_episode_begins_where_the_actions_of_a_start_lead(tmp_path, full):
    own = {RIGHT: 2, LEFT: 3, 0: 0}  # Pong's own actions: NOOP, FIRE, RIGHT, LEFT, RIGHTFIRE, LEFTFIRE
    ends = [screen_after([action if full else own[action] for action in start], full=full) for start in STARTS]
    assert not np.array_equal(*ends)
    screens = first_screens(behind(tmp_path, full_action_space=full), 12)
    found = [[np.array_equal(screen, end) for end in ends] for screen in screens]
    assert [sum(each) for each in found] == [1] * 12
    assert {each.index(True) for each in found} == {0, 1}


def test_a_game_without_an_action_of_a_start_and_a_start_that_ends_the_game_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"start 1 of ALE/Pong-v5 has the action 2, which the agent's game lacks"):
        behind(tmp_path, [[0], [UP]])
    environment = behind(tmp_path, [[0] * 60], max_episode_frames=200)
    with pytest.raises(Exception, match="start 0 ends the game; leave it out"):
        environment.reset(0)
    environment.close()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "cannot be read: Expecting property name"),
        ("[]", r"has no starts of ALE/Pong-v5; write \{"),
        ('{"ALE/Pong-v5": []}', "has no starts of ALE/Pong-v5"),
        ('{"ALE/Pong-v5": [[0], 3]}', "start 1 of ALE/Pong-v5 is no list of ALE's actions, 0 to 17"),
        ('{"ALE/Pong-v5": [[18]]}', "start 0 of ALE/Pong-v5 is no list"),
        ('{"ALE/Pong-v5": [[true]]}', "start 0 of ALE/Pong-v5 is no list"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, text, wrong):
    path = tmp_path / "starts.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=wrong):
        read_starts(path, PONG)
    with pytest.raises(ValueError, match=r"gone\.json cannot be read"):
        read_starts(tmp_path / "gone.json", PONG)
