"""A continuous task whose best return is known and can only be had through bootstrapped values."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

ENV_ID = "tests/Delayed-v0"
BEST_RETURN = 1.0


class Delayed(gymnasium.Env):
    """Two steps; the reward for both actions comes with the second.

        r = 1 - (a_0 - s / 2)^2 - (a_1 + s / 2)^2

    The sign s is shown all along, the first action when it has been taken. Always acting as if s were 0 earns 0.5 and
    random actions about -0.2. Whoever takes the first step for the last, or the sign for another, earns 0.5 at most.
    """

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._sign, self._taken = float(self.np_random.choice([-1.0, 1.0])), None
        return self._seen(), {}

    def step(self, action):
        action = float(action[0])
        if self._taken is None:
            self._taken = action
            return self._seen(), 0.0, False, False, {}
        lost = (self._taken - self._sign / 2) ** 2 + (action + self._sign / 2) ** 2
        return self._seen(), 1.0 - lost, True, False, {}

    def _seen(self):
        return np.array([self._sign, 0.0 if self._taken is None else self._taken], np.float32)


if ENV_ID not in gymnasium.registry:
    gymnasium.register(ENV_ID, Delayed)
