"""MinAtar behind the vector interface: seeds, actions, cells and pictures."""

import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import make_environment
from laser.environments.config import EnvironmentConfig
from laser.environments.minatar import GAMES, MinAtar
from laser.specs import DiscreteActions, FramesSpec

CONFIG = EnvironmentConfig()


def rollout(id, seed, num_steps=40):
    environment = make_environment(id, 2, CONFIG)
    seen = [environment.reset(seed)["observation"].copy()]
    rewards = []
    for step in range(num_steps):
        environment.send(np.full(2, step % environment.spec.actions.num_actions))
        (part,) = environment.recv()
        seen.append(part.observations["observation"].copy())
        rewards.append(part.rewards.copy())
    environment.close()
    return np.stack(seen), np.stack(rewards)


@pytest.mark.parametrize("game", GAMES)
def test_every_game_steps_and_a_seed_decides_everything(game):
    id = f"MinAtar/{game}-v1"
    first, rewards = rollout(id, 3)
    again, _ = rollout(id, 3)
    np.testing.assert_array_equal(first, again)
    assert set(np.unique(first)) == {0.0, 1.0}
    assert np.isfinite(rewards).all()


def test_seeds_and_environments_differ():
    first, _ = rollout("MinAtar/Asterix-v1", 3)
    other, _ = rollout("MinAtar/Asterix-v1", 4)
    assert (first != other).any()
    assert (first[:, 0] != first[:, 1]).any()


def test_cells_are_a_picture_of_bools_and_the_version_chooses_the_actions():
    for version, num_actions in ((0, 6), (1, 3)):
        environment = make_environment(f"MinAtar/Breakout-v{version}", 1, CONFIG)
        assert environment.spec.observations == {"observation": FramesSpec((10, 10, 4), high=1)}
        assert environment.spec.actions == DiscreteActions(num_actions)
        environment.close()


def test_a_minimal_action_is_the_games_own():
    """In Breakout the actions are nothing, left and right: 0, 1 and 3 of the six."""
    game = MinAtar("Breakout", minimal_actions=True)
    game._game.sticky_action_prob = 0.0
    game.reset(seed=0)
    before = game._game.env.pos
    game.step(1)
    assert game._game.env.pos == before - 1
    game.step(2)
    game.step(2)
    assert game._game.env.pos == before + 1


def test_an_action_does_not_stick_into_the_next_episode():
    game = MinAtar("Breakout", minimal_actions=True)
    game.reset(seed=0)
    game.step(2)
    assert game._game.last_action == 3
    game.reset()
    assert game._game.last_action == 0


def test_pictures_show_what_is_there():
    game = MinAtar("Breakout", minimal_actions=True)
    game.reset(seed=0)
    picture = game.render()
    assert picture.shape == (160, 160, 3)
    lit = picture[::16, ::16].any(-1)
    np.testing.assert_array_equal(lit, game._game.state().any(-1))


def test_an_unknown_game_is_one_line():
    with pytest.raises(ConfigError, match="unknown environment 'MinAtar/Pong-v1'"):
        make_environment("MinAtar/Pong-v1", 1, CONFIG)
