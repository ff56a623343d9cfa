"""Saving and restoring of single Gymnasium environments whose whole state is known.

These are Gymnasium's classic-control environments, and any environment with two methods:

    def state_dict(self) -> dict            JSON values and NumPy arrays, without the generator `np_random`
    def load_state_dict(self, state) -> None
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import (
    AcrobotEnv,
    CartPoleEnv,
    Continuous_MountainCarEnv,
    MountainCarEnv,
    PendulumEnv,
)
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from laser.environments.masked import MaskedEnvironment

_TRANSPARENT = (OrderEnforcing, PassiveEnvChecker, TimeLimit, MaskedEnvironment)
_CLASSIC_CONTROL = {
    CartPoleEnv: ("state", "steps_beyond_terminated"),
    AcrobotEnv: ("state",),
    MountainCarEnv: ("state",),
    Continuous_MountainCarEnv: ("state",),
    PendulumEnv: ("state",),
}
_CARTPOLE_VECTOR = ("state", "steps", "prev_done")


def is_restorable(environment: gymnasium.Env) -> bool:
    """Return whether `save` returns all state that a bitwise identical continuation needs."""
    while isinstance(environment, gymnasium.Wrapper):
        if type(environment) not in _TRANSPARENT:
            return False
        environment = environment.env
    return type(environment) in _CLASSIC_CONTROL or _restores_itself(environment)


def save(environment: gymnasium.Env) -> dict[str, Any]:
    """Return the state of a restorable environment: its own, its generator's and the time limit's step counter."""
    inner: Any = environment.unwrapped
    if _restores_itself(inner):
        own = inner.state_dict()
    else:
        own = {name: _plain(getattr(inner, name)) for name in _CLASSIC_CONTROL[type(inner)]}
    return {
        "own": own,
        "generator": inner.np_random.bit_generator.state,
        "elapsed_steps": [limit._elapsed_steps for limit in _time_limits(environment)],
    }


def load(environment: gymnasium.Env, state: dict[str, Any]) -> None:
    """Restore a restorable environment to a state from `save`."""
    environment.reset()  # some attributes exist only after a reset, in every wrapper
    inner: Any = environment.unwrapped
    if _restores_itself(inner):
        inner.load_state_dict(state["own"])
    else:
        for name, value in state["own"].items():
            setattr(inner, name, value.copy() if isinstance(value, np.ndarray) else value)
    inner.np_random.bit_generator.state = state["generator"]
    for limit, steps in zip(_time_limits(environment), state["elapsed_steps"], strict=True):
        limit._elapsed_steps = steps


def save_vector(environments: gymnasium.vector.VectorEnv) -> dict[str, Any] | None:
    """Return the state of Gymnasium's own CartPole vector; None for any other."""
    inner: Any = environments.unwrapped
    if type(inner) is not CartPoleVectorEnv:
        return None
    state = {name: getattr(inner, name).copy() for name in _CARTPOLE_VECTOR}
    return {**state, "generator": inner.np_random.bit_generator.state}


def load_vector(environments: gymnasium.vector.VectorEnv, state: dict[str, Any]) -> None:
    """Restore Gymnasium's own CartPole vector to a state from `save_vector`."""
    environments.reset()
    inner: Any = environments.unwrapped
    for name in _CARTPOLE_VECTOR:
        setattr(inner, name, state[name].copy())
    inner.np_random.bit_generator.state = state["generator"]


def _restores_itself(inner: Any) -> bool:
    return callable(getattr(inner, "state_dict", None)) and callable(getattr(inner, "load_state_dict", None))


def _time_limits(environment: gymnasium.Env) -> list[TimeLimit]:
    limits = []
    while isinstance(environment, gymnasium.Wrapper):
        if isinstance(environment, TimeLimit):
            limits.append(environment)
        environment = environment.env
    return limits


def _plain(value: Any) -> Any:
    """Return a copy of a state value, with tuples and lists of floats as arrays."""
    return value if value is None or isinstance(value, int) else np.array(value)
