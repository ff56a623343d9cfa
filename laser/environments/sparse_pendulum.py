"""A pendulum that is rewarded only for staying up: `SparsePendulum-v0`, registered with Gymnasium."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv

MAX_ANGLE = math.pi / 3.0
NUM_STEPS_UP = 20


class SparsePendulum(PendulumEnv):
    """Pendulum-v1 with a reward of 1 per step once the rod has stayed up for 20 steps, else 0.

    Up is within 60 degrees of upright after the step; the 20th such step in a row is the first with a reward. The
    observation does not tell how many there were. With 200 steps the return is at most 181.

    Source:
        Oh et al. 2021 (NERS), appendix A; whether 20 steps are enough or one more is needed, its words leave open.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; see `gymnasium.Env.reset`."""
        self._num_steps_up = 0
        observation, info = super().reset(seed=seed, options=options)
        return observation, info

    def step(self, u: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take one step; see `gymnasium.Env.step`."""
        observation, _, terminated, truncated, info = super().step(u)  # type: ignore[no-untyped-call]
        cosine = float(observation[0])
        self._num_steps_up = self._num_steps_up + 1 if cosine >= math.cos(MAX_ANGLE) else 0
        return observation, float(self._num_steps_up >= NUM_STEPS_UP), terminated, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the episode; see `laser.environments.restoring`."""
        return {"state": np.array(self.state), "num_steps_up": self._num_steps_up}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.state, self._num_steps_up = state["state"].copy(), state["num_steps_up"]


gymnasium.register("SparsePendulum-v0", entry_point=f"{__name__}:SparsePendulum", max_episode_steps=200)
