"""Checks of what a step returns beside the observation: rewards, and whether the episode is over."""

from __future__ import annotations

from typing import Any

import numpy as np

from laser.environments.base import EnvironmentFailedError

MAX_REWARD = 1e15
"""Limit of rewards: squares, sums and discounted returns must fit float32."""


def read_reward(reward: Any) -> float:
    """Return one environment's reward as a float.

    Raises:
        EnvironmentFailedError: the reward is not a number.
    """
    if isinstance(reward, (float, int, np.number, np.bool_)) or (isinstance(reward, np.ndarray) and reward.ndim == 0):
        return float(reward)
    got = f"an array of shape {reward.shape}" if isinstance(reward, np.ndarray) else repr(reward)
    raise EnvironmentFailedError("wrong_shape", f"reward must be a number, got {got}")


def read_flag(name: str, flag: Any) -> bool:
    """Return one environment's `terminated` or `truncated`.

    Raises:
        EnvironmentFailedError: the flag is neither a bool nor 0 or 1.
    """
    if isinstance(flag, (bool, np.bool_)):
        return bool(flag)
    is_scalar = isinstance(flag, (int, float, np.number)) or (isinstance(flag, np.ndarray) and flag.ndim == 0)
    if is_scalar and flag in (0, 1):
        return bool(flag)
    got = f"an array of shape {flag.shape}" if isinstance(flag, np.ndarray) and flag.ndim else repr(flag)
    raise EnvironmentFailedError("wrong_shape", f"{name} must be True or False, got {got}")


def read_flags(name: str, flags: Any, num_envs: int) -> np.ndarray:
    """Return a vector's `terminated` or `truncated` as bools [num_envs] in new memory.

    Raises:
        EnvironmentFailedError: a flag is neither a bool nor 0 or 1, or their shape is wrong.
    """
    given = np.asarray(flags)
    if given.shape != (num_envs,):
        raise EnvironmentFailedError("wrong_shape", f"{name} must have shape ({num_envs},), got {given.shape}")
    if given.dtype != bool:
        given = np.array([read_flag(name, flag) for flag in given])
    checked: np.ndarray = np.array(given, bool)
    return checked


def read_rewards(rewards: Any, num_envs: int) -> np.ndarray:
    """Return a vector's rewards as float32 [num_envs] in new memory.

    Raises:
        EnvironmentFailedError: a reward is not finite or too large, or their shape is wrong.
    """
    with np.errstate(over="ignore"):
        checked = np.array(rewards, np.float32)
    if checked.shape != (num_envs,):
        raise EnvironmentFailedError("wrong_shape", f"rewards must have shape ({num_envs},), got {checked.shape}")
    if (np.abs(checked) <= MAX_REWARD).all():  # and finite
        return checked
    if not np.isfinite(checked).all():
        bad = int(np.flatnonzero(~np.isfinite(checked))[0])
        reward = np.asarray(rewards, np.float64)[bad]
        wrong = "does not fit float32" if np.isfinite(reward) else "is not finite"
        raise EnvironmentFailedError("not_finite", f"reward {wrong}: {reward} of environment {bad}")
    bad = int(np.abs(checked).argmax())
    wrong = f"reward is beyond +-{MAX_REWARD:g}, where sums of returns overflow: {checked[bad]:g} of environment {bad}"
    raise EnvironmentFailedError("not_finite", wrong)
