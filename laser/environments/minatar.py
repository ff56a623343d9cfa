"""MinAtar: five Atari games on 10x10 cells, such as `MinAtar/Breakout-v1`."""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any

import gymnasium
import numpy as np

from laser.environments.base import VectorEnvironment
from laser.environments.config import EnvironmentConfig
from laser.environments.processes import ProcessEnvironments
from laser.environments.spaces import action_writer, observation_reader
from laser.environments.suite import Suite, env_error, unknown_id
from laser.environments.sync import SyncEnvironments
from laser.packages import install_command, is_installed
from laser.specs import EnvironmentSpec

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
CELL_PIXELS = 16
STICKINESS = 0.1


class MinAtarSuite(Suite):
    """Ids as the package registers them: `MinAtar/GAME-v0` with all six actions, `-v1` with those the game uses."""

    name = "MinAtar"
    flags = frozenset({"vectorization"})

    def claims(self, id: str) -> bool:
        """Return whether the id begins with `MinAtar/`."""
        return id.startswith("MinAtar/")

    def ids(self) -> list[str]:
        """Return the ids of all games, in both versions."""
        if not is_installed("minatar"):
            return []
        return [f"MinAtar/{game}-v{version}" for game in GAMES for version in (0, 1)]

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return environments one after the other, or in processes."""
        if not is_installed("minatar"):
            raise env_error(f"{id} needs minatar, which is not installed", install_command("minatar"))
        if id not in self.ids():
            raise unknown_id(id)
        game, version = id.removeprefix("MinAtar/").rsplit("-v", 1)
        make = functools.partial(MinAtar, game, minimal_actions=version == "1")
        first = make()
        reader = observation_reader(first.observation_space, pictures=config.picture_rule)
        writer = action_writer(first.action_space)
        spec = EnvironmentSpec(id, reader.specs, writer.spec)
        if config.vectorization == "async":
            return ProcessEnvironments(spec, [make] * num_envs, reader, writer, config.deadline_s)
        return SyncEnvironments(spec, [make] * num_envs, reader, writer, first)


class MinAtar(gymnasium.Env[Any, Any]):
    """One game as a Gymnasium environment: a picture of 10x10 cells, with a channel of bools for each kind of object.

    The package's own Gymnasium environment draws its seed elsewhere, and carries the last action into the next episode.

    Args:
        game: one of `GAMES`.
        minimal_actions: leave out actions without effect in this game.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, game: str, minimal_actions: bool):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", game).lower()
        self._game = importlib.import_module("minatar").Environment(name, sticky_action_prob=STICKINESS)
        self._actions = self._game.minimal_action_set() if minimal_actions else list(range(self._game.num_actions()))
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))
        self.observation_space = gymnasium.spaces.Box(0, 1, self._game.state_shape(), np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self._game.seed(seed % 2**32)
        self._game.last_action = 0
        self._game.reset()
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take an action, or repeat the last one with probability 0.1 (sticky actions). Games have no time limit."""
        reward, terminated = self._game.act(self._actions[int(action)])
        return self._observe(), float(reward), bool(terminated), False, {}

    def render(self) -> np.ndarray:
        """Return a picture, uint8 [160, 160, 3]: each cell has the colour of its highest channel."""
        state = self._game.state()
        colours = np.linspace(0.0, 1.0, state.shape[-1] + 1)[:, None] * np.array([255, 200, 120]) + np.array([0, 0, 60])
        front = (state * np.arange(1, state.shape[-1] + 1)).max(-1)
        picture = np.where(front[..., None] > 0, colours[front], 0).clip(0, 255).astype(np.uint8)
        return np.kron(picture, np.ones((CELL_PIXELS, CELL_PIXELS, 1), np.uint8))

    def _observe(self) -> np.ndarray:
        return np.asarray(self._game.state(), np.bool_)
