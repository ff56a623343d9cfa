"""MiniGrid and BabyAI, such as `MiniGrid-DoorKey-5x5-v0`: grids of cells that have a kind, a colour and a state."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from laser.environments.base import VectorEnvironment
from laser.environments.config import EnvironmentConfig
from laser.environments.gymnasium import GymnasiumSuite
from laser.environments.suite import env_error, unknown_id
from laser.packages import install_command, is_installed

_BEGINNINGS = ("MiniGrid-", "BabyAI-")
_NUM_CODES = (11, 6, 4)
"""Numbers of kinds of objects, colours and states of a cell."""
_WRAPPER = "laser.environments.minigrid:GridPlanes"


class MiniGridSuite(GymnasiumSuite):
    """Ids of the package `minigrid`, which need not be imported before."""

    name = "MiniGrid"
    rank = 0

    def claims(self, id: str) -> bool:
        """Return whether the id begins as the package's ids do."""
        return id.startswith(_BEGINNINGS)

    def ids(self) -> list[str]:
        """Return the ids that the package registers."""
        if not is_installed("minigrid"):
            return []
        importlib.import_module("minigrid")
        return [name for name in gymnasium.registry if self.claims(name)]

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return environments in `GridPlanes`, inside the wrappers of the config."""
        return super().make(id, num_envs, self._prepared(id, config))

    def make_one(self, id: str, config: EnvironmentConfig) -> VectorEnvironment:
        """Return one such environment in this process."""
        return super().make_one(id, self._prepared(id, config))

    def _prepared(self, id: str, config: EnvironmentConfig) -> EnvironmentConfig:
        if not is_installed("minigrid"):
            raise env_error(f"{id} needs minigrid, which is not installed", install_command("minigrid"))
        if id not in self.ids():
            raise unknown_id(id)
        return replace(config, wrappers=",".join(filter(None, [_WRAPPER, config.wrappers])))


class GridPlanes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The grid as a picture of bools, a channel for each kind of object, colour and state; without the mission's text.

    The package encodes a cell by three small numbers, whose order means nothing: as grey values they could hardly be
    told apart. The text is the same in every episode of most tasks; where it is not, the agent does not know its goal.

    Args:
        environment: with observations `image`, uint8 [width, height, 3], `direction` and `mission`.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any]):
        super().__init__(environment)
        spaces = dict(environment.observation_space.spaces)  # type: ignore[attr-defined]
        spaces.pop("mission", None)
        width, height, _ = spaces["image"].shape
        spaces["image"] = gymnasium.spaces.Box(0, 1, (width, height, sum(_NUM_CODES)), np.bool_)
        self.observation_space = gymnasium.spaces.Dict(spaces)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take an action."""
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return self._seen(observation), reward, bool(terminated), bool(truncated), info

    def _seen(self, observation: dict[str, Any]) -> dict[str, Any]:
        image = observation["image"]
        planes = [np.arange(number) == image[..., part, None] for part, number in enumerate(_NUM_CODES)]
        seen = {name: value for name, value in observation.items() if name != "mission"}
        return seen | {"image": np.concatenate(planes, -1)}
