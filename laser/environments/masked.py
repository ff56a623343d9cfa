"""Gymnasium environments with action masks: the mask becomes one of their observations, called `action_mask`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from laser.environments.action_masks import read_mask, read_masks
from laser.environments.base import RAISED, EnvironmentFailedError, failure_of
from laser.environments.results import read_flag
from laser.environments.suite import env_error
from laser.foreign_threads import ForeignThread
from laser.specs import ACTION_MASK, MaskSpec

Place = Literal["info", "observation"]
"""The part of an environment's results that holds its masks."""

_LEAVE_OUT = "leave it out, or use --environment.action-masks off"

# Whether `info` holds masks, by environment: it takes a reset to know, and a process asks several times.
_KNOWN: dict[Hashable, bool] = {}


def find_masks(
    id: str,
    key: Hashable,
    environment: gymnasium.Env | VectorEnv,
    observations: spaces.Space[Any],
    actions: spaces.Space[Any],
    deadline_s: float | None,
) -> Place | None:
    """Return where an environment gives action masks; None: nowhere.

    Whether `info` holds them is found by a reset, once per process and environment.

    Args:
        id: the environment's id, for messages.
        key: what decides the environment's behaviour.
        environment: one environment, or a vector of them.
        observations: observation space of one environment.
        actions: action space of one environment.
        deadline_s: seconds after which the reset counts as hung; the environment is then good for nothing else. None:
            it is waited for.

    Raises:
        ConfigError: there are masks, and actions are not of a kind that has them; or their space does not fit.
        EnvironmentFailedError: the reset failed.
    """
    if isinstance(observations, spaces.Dict) and ACTION_MASK in observations.spaces:
        place: Place = "observation"
    else:
        if key not in _KNOWN:
            _KNOWN[key] = _info_has_mask(environment, deadline_s)
        if not _KNOWN[key]:
            return None
        place = "info"
    spec = mask_spec(actions)
    if spec is None:
        raise env_error(
            f"{id} has action masks, which need Discrete or MultiDiscrete actions, not {actions}", _LEAVE_OUT
        )
    if place == "observation":
        own = observations[ACTION_MASK]  # type: ignore[index]
        if spaces.flatdim(own) != spec.shape[0]:
            raise env_error(f"{id} has {spec.shape[0]} actions, and its {ACTION_MASK} has the space {own}", _LEAVE_OUT)
        if len(observations.spaces) == 1:  # type: ignore[attr-defined]
            raise env_error(f"{id} has nothing to see beside its {ACTION_MASK}", "add an observation")
    return place


def mask_spec(actions: spaces.Space[Any]) -> MaskSpec | None:
    """Return the spec of masks for an action space; None where LASER has none."""
    if isinstance(actions, spaces.Discrete):
        return MaskSpec((int(actions.n),))
    if isinstance(actions, spaces.MultiDiscrete) and actions.nvec.ndim == 1:
        return MaskSpec(tuple(int(num) for num in actions.nvec))
    return None


class MaskedEnvironment(gymnasium.Wrapper):
    """One environment whose observations hold a checked mask.

    Args:
        environment: the environment.
        place: where it gives masks.
    """

    def __init__(self, environment: gymnasium.Env, place: Place):
        super().__init__(environment)
        self._place = place
        self._spec = _spec_of(environment.action_space)
        self.observation_space = _space_with_mask(environment.observation_space, self._spec)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observation, info, False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action. After a termination the mask may be missing, or allow nothing: nothing follows."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        seen = self._with_mask(observation, info, read_flag("terminated", terminated))
        return seen, reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: dict[str, Any], over: bool) -> dict[str, Any]:
        named = _named(self.env.observation_space, observation)
        mask = (info if self._place == "info" else named).get(ACTION_MASK)
        if mask is None and over:
            mask = np.ones(self._spec.shape, bool)
        if mask is None:
            raise _missing(self._place)
        return {**named, ACTION_MASK: read_mask(self._spec, mask, over=over)}


class MaskedVector(VectorWrapper):
    """A vector of environments whose observations, final ones included, hold checked masks.

    Args:
        environments: the vector.
        place: where it gives masks.
    """

    def __init__(self, environments: VectorEnv, place: Place):
        super().__init__(environments)
        self._place = place
        self._spec = _spec_of(environments.single_action_space)
        self.single_observation_space = _space_with_mask(environments.single_observation_space, self._spec)
        self.observation_space = batch_space(self.single_observation_space, environments.num_envs)
        self._resets_within_steps = AutoresetMode(environments.metadata["autoreset_mode"]) is AutoresetMode.SAME_STEP

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere, or where `options["reset_mask"]` says so."""
        # Read before: Gymnasium's vectors take it out of the options.
        begun = np.array((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        observations, info = self.env.reset(seed=seed, options=options)
        return self._with_masks(observations, info, ~begun), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take actions; see `MaskedEnvironment.step`."""
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        over = np.array(terminated, bool)
        ended = np.flatnonzero(over | np.asarray(truncated, bool))
        if self._resets_within_steps:
            if len(ended) and info.get("final_obs") is not None:
                info = {**info, "final_obs": self._final(info, ended, over)}
            over = np.zeros(self.num_envs, bool)
        return self._with_masks(observations, info, over), rewards, terminated, truncated, info

    def _final(self, info: dict[str, Any], ended: np.ndarray, terminated: np.ndarray) -> np.ndarray:
        """Return the final observations with their masks: one object per environment, None where nothing ended."""
        final = np.full(self.num_envs, None, object)
        for index in ended.tolist():
            named = _named(self.env.single_observation_space, _row(info["final_obs"], index))
            given = _row_of_info(info.get("final_info", {}), index) if self._place == "info" else named.get(ACTION_MASK)
            if given is None and terminated[index]:
                given = np.ones(self._spec.shape, bool)
            if given is None:
                raise _missing(self._place, "the final_info of a same-step autoreset")
            final[index] = {**named, ACTION_MASK: read_mask(self._spec, given, over=bool(terminated[index]))}
        return final

    def _with_masks(self, observations: Any, info: dict[str, Any], over: np.ndarray) -> dict[str, Any]:
        named = _named(self.env.single_observation_space, observations)
        given = (info if self._place == "info" else named).get(ACTION_MASK)
        present = np.asarray(info.get(f"_{ACTION_MASK}", given is not None)) if self._place == "info" else np.True_
        present = np.broadcast_to(present, self.num_envs)
        if given is None or (~present & ~over).any():
            if not over.all():
                raise _missing(self._place)
            given = np.ones((self.num_envs, *self._spec.shape), bool)
        if isinstance(given, np.ndarray) and given.dtype == object:
            rows = [given[index] if present[index] else np.ones(self._spec.shape, bool) for index in range(len(given))]
            masks = np.stack([read_mask(self._spec, row, over=bool(end)) for row, end in zip(rows, over, strict=True)])
        else:
            masks = read_masks(self._spec, given, over)
        return {**named, ACTION_MASK: masks}


def _info_has_mask(environment: gymnasium.Env | VectorEnv, deadline_s: float | None) -> bool:
    found: list[bool | BaseException] = []

    def look() -> None:
        try:
            _, info = environment.reset()
            found.append(ACTION_MASK in info)
        except RAISED as error:
            found.append(error)

    if deadline_s is None:
        look()
    else:
        thread = ForeignThread(look, "first reset")
        thread.start()
        thread.join(deadline_s)
        if not found:
            raise EnvironmentFailedError("hung", f"environment 0 did not finish a reset within {deadline_s:g} s")
    if isinstance(found[0], BaseException):
        raise failure_of(found[0]) from found[0]
    return found[0]


def _spec_of(actions: spaces.Space[Any]) -> MaskSpec:
    spec = mask_spec(actions)
    assert spec is not None, "find_masks refuses other actions"
    return spec


def _space_with_mask(space: spaces.Space[Any], spec: MaskSpec) -> spaces.Dict:
    parts = space.spaces if isinstance(space, spaces.Dict | spaces.Tuple) else space
    return spaces.Dict({**_named(space, parts), ACTION_MASK: spaces.MultiBinary(spec.shape[0])})


def _named(space: spaces.Space[Any], value: Any) -> dict[str, Any]:
    """Return the parts of an observation, or of its space, by the names that LASER gives them."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping):
            wrong = f"observation must have keys {sorted(space.spaces)}, got {type(value).__name__}"
            raise EnvironmentFailedError("wrong_shape", wrong)
        return dict(value)
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list):
            wrong = f"observation must be a tuple, got {type(value).__name__}"
            raise EnvironmentFailedError("wrong_shape", wrong)
        return {str(index): part for index, part in enumerate(value)}
    return {"observation": value}


def _row(value: Any, index: int) -> Any:
    """Return one environment's part of an observation of a vector."""
    if isinstance(value, dict):
        return {name: _row(part, index) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_row(part, index) for part in value)
    return value[index]


def _row_of_info(info: dict[str, Any], index: int) -> Any:
    """Return one environment's mask in an `info` of a vector; None where it has none."""
    present = info.get(f"_{ACTION_MASK}")
    if ACTION_MASK not in info or (present is not None and not present[index]):
        return None
    return _row(info[ACTION_MASK], index)


def _missing(place: Place, of: str = "") -> EnvironmentFailedError:
    where = of or ("info" if place == "info" else "the observation")
    wrong = f"{where} must hold {ACTION_MASK!r} at every step, as at the first reset, got none"
    return EnvironmentFailedError("wrong_mask", wrong)
