"""An environment whose observations say where they come from, and which misbehaves once."""

from collections import Counter

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTHS = (5, 7, 4, 6)
SPACE, ACTIONS = spaces.Box(-1e6, 1e6, (4,), np.float32), spaces.Discrete(5)
LIVES = Counter()
"""Starts of each environment in this process."""


class Counting(gymnasium.Env):
    """Observes [environment, life, episode, step]; in its first life it misbehaves at a step, or at a reset, 0.

    Args:
        index: number of the environment.
        fails_at: the number of the call of `step` that misbehaves, or 0 for the second reset.
        deed: what it does.
    """

    observation_space, action_space = SPACE, ACTIONS

    def __init__(self, index, fails_at=None, deed="raises"):
        self._index, self._life = index, LIVES[index]
        LIVES[index] += 1
        self._fails_at, self._deed = (fails_at if self._life == 0 else None), deed
        self._calls, self._episode, self._step, self._is_broken = 0, -1, 0, False

    def reset(self, *, seed=None, options=None):
        self._episode, self._step = self._episode + 1, 0
        return self._observation(self._fails_at == 0 and self._episode == 1), {}

    def step(self, action):
        self._calls, self._step = self._calls + 1, self._step + 1
        observation = self._observation(self._calls == self._fails_at)
        return observation, 1.0, self._step == LENGTHS[self._index], False, {}

    def close(self):
        if self._is_broken:
            raise OSError("the door is stuck")

    def _observation(self, fails):
        self._is_broken = fails
        if fails and self._deed == "raises":
            raise RuntimeError("the wheel came off")
        observation = np.array([self._index, self._life, self._episode, self._step], np.float32)
        return observation * np.nan if fails else observation
