"""An environment of your own: the agent pushes a ball to a goal and stops it there.

laser train cartpole --env own_environment:Push-v0
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Push(gymnasium.Env):
    """Push a ball along a line; the episode terminates when it rests at the goal, and is truncated after 100 steps."""

    # The agent's observations: choose your own names; each is a Box or a Discrete.
    observation_space = spaces.Dict(
        {
            "ball": spaces.Box(-np.inf, np.inf, (2,), np.float32),  # position and speed
            "goal": spaces.Box(-1.0, 1.0, (1,), np.float32),
        }
    )
    # Bounds must be finite: policies act in [-1, 1], and LASER maps their actions to the bounds.
    action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return the first observation and an info that LASER does not read."""
        super().reset(seed=seed)
        # All randomness comes from self.np_random, so that a seed decides everything.
        self._place, self._goal = self.np_random.uniform(-1.0, 1.0, 2)
        self._speed = 0.0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Push; return observation, reward, terminated, truncated, info."""
        self._speed = 0.9 * self._speed + 0.05 * float(action[0])
        self._place += 0.1 * self._speed
        distance = abs(self._place - self._goal)
        terminated = distance < 0.05 and abs(self._speed) < 0.05
        # Never report a time limit as terminated: the value of what would have followed is not zero.
        return self._observation(), -distance, terminated, False, {}

    def _observation(self) -> dict[str, np.ndarray]:
        return {
            "ball": np.array([self._place, self._speed], np.float32),
            "goal": np.array([self._goal], np.float32),
        }

    # Optional: with these two, interrupted lockstep training resumes bitwise in the middle of an episode.
    def state_dict(self) -> dict[str, Any]:
        """Return the state of the running episode, except for the generator."""
        return {"place": float(self._place), "speed": float(self._speed), "goal": float(self._goal)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the episode whose state `state_dict` returned."""
        self._place, self._speed, self._goal = state["place"], state["speed"], state["goal"]


# The time limit belongs here: Gymnasium counts the steps and reports the end as truncated.
gymnasium.register("Push-v0", "own_environment:Push", max_episode_steps=100)
