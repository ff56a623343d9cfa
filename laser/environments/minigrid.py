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
from laser.environments.wrappers import split_wrappers
from laser.packages import install_command, is_installed
from laser.user_classes import import_object

_BEGINNINGS = ("MiniGrid-", "BabyAI-")
_MODULE = "minigrid:"
_NUM_CODES = (11, 6, 4)
"""Numbers of kinds of objects, colours and states of a cell."""
_WRAPPER = "laser.environments.minigrid:GridPlanes"


class MiniGridSuite(GymnasiumSuite):
    """Ids of the package `minigrid`, which need not be imported before."""

    name = "MiniGrid"
    rank = 0

    def claims(self, id: str) -> bool:
        """Return whether the id begins as the package's ids do."""
        return id.removeprefix(_MODULE).startswith(_BEGINNINGS)

    def ids(self) -> list[str]:
        """Return the ids that the package registers."""
        if not is_installed("minigrid"):
            return []
        importlib.import_module("minigrid")
        return [name for name in gymnasium.registry if self.claims(name)]

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return environments in `GridPlanes`, between the wrappers of the package and the others of the config."""
        return super().make(id, num_envs, self._prepared(id, config))

    def make_one(self, id: str, config: EnvironmentConfig) -> VectorEnvironment:
        """Return one such environment in this process."""
        return super().make_one(id, self._prepared(id, config))

    def _prepared(self, id: str, config: EnvironmentConfig) -> EnvironmentConfig:
        if not is_installed("minigrid"):
            raise env_error(f"{id} needs minigrid, which is not installed", install_command("minigrid"))
        if id.startswith(_MODULE):
            raise env_error(f"{id} names the module {_MODULE[:-1]}, which LASER imports", f"use {id[len(_MODULE) :]}")
        if id not in self.ids():
            raise unknown_id(id)
        named = split_wrappers(config.wrappers)
        # The package's wrappers need its own observations, and some replace the grid by another one in numbers.
        num_inside = max((place for place, each in enumerate(named, 1) if _sees_codes(each)), default=0)
        return replace(config, wrappers=",".join([*named[:num_inside], _WRAPPER, *named[num_inside:]]))


def _sees_codes(wrapper: str) -> bool:
    """Return whether a named wrapper is an observation wrapper of the package, or derives from one."""
    try:
        found = import_object(wrapper.partition("(")[0].strip())
    except ValueError:  # the same error is explained where the wrapper is put on
        return False
    kinds = found.__mro__ if isinstance(found, type) else ()
    return gymnasium.ObservationWrapper in kinds and any(kind.__module__ == "minigrid.wrappers" for kind in kinds)


class GridPlanes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The grid as a picture of bools, a channel for each kind of object, colour and state; without the mission's text.

    Observations that hold no such grid, as those of `RGBImgPartialObsWrapper`, keep what they have.

    The package encodes a cell by three small numbers, whose order means nothing: as grey values they could hardly be
    told apart. The text is the same in every episode of most tasks; where it is not, the agent does not know its goal.

    Args:
        environment: with observations `image`, uint8 [width, height, 3], `direction` and `mission`, or with the image
            alone, as `ImgObsWrapper` gives it.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any]):
        super().__init__(environment)
        space = environment.observation_space
        parts = dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
        self._is_nested = "" not in parts
        if isinstance(parts.get("mission"), importlib.import_module("minigrid.core.mission").MissionSpace):
            del parts["mission"]
        image = "image" if self._is_nested else ""
        self._grids = [name for name in parts if name == image and _is_grid(parts[name], environment)]
        for name in self._grids:
            width, height, _ = parts[name].shape or ()
            parts[name] = gymnasium.spaces.Box(0, 1, (width, height, sum(_NUM_CODES)), np.bool_)
        self._names = list(parts)
        self.observation_space = gymnasium.spaces.Dict(parts) if self._is_nested else parts[""]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take an action."""
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return self._seen(observation), reward, bool(terminated), bool(truncated), info

    def _seen(self, observation: Any) -> Any:
        if not self._is_nested:
            return _planes(observation) if self._grids else observation
        seen = {name: observation[name] for name in self._names}
        return seen | {name: _planes(seen[name]) for name in self._grids}


def _planes(image: np.ndarray) -> np.ndarray:
    planes = [np.arange(number) == image[..., part, None] for part, number in enumerate(_NUM_CODES)]
    return np.concatenate(planes, -1)


def _is_grid(space: gymnasium.Space[Any], environment: gymnasium.Env[Any, Any]) -> bool:
    """Return whether an image has a cell of three codes for each of the grid, or of what the agent sees of it.

    The package declares the same bounds for codes and colours, so that only the size tells them apart.
    """
    grid: Any = environment.unwrapped
    view = environment.get_wrapper_attr("agent_view_size")
    sizes = {(grid.width, grid.height, 3), (view, view, 3)}
    return isinstance(space, gymnasium.spaces.Box) and space.shape in sizes and bool((space.high == 255).all())
