"""Small tasks with known returns, restorable, at thousands of steps per millisecond: for claims on small machines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from laser.environments.base import Transition, VectorEnvironment
from laser.environments.config import EnvironmentConfig
from laser.environments.mini_pictures import PixelCatch
from laser.environments.mini_tasks import Catch, DeepSea, KeyDoor, RepeatPrevious, Task, TMaze
from laser.environments.suite import Suite, env_error, unknown_id
from laser.specs import DiscreteActions, EnvironmentSpec, ObservationSpec, VectorSpec

# Tasks with a size: constructor, smallest, largest and suggested size.
_SIZED: dict[str, tuple[Callable[[int], Task], int, int, int]] = {
    "SparseCatch": (Catch, 1, 16, 3),
    "DeepSea": (DeepSea, 2, 64, 8),
    "TMaze": (TMaze, 1, 1000, 10),
    "KeyDoor": (KeyDoor, 2, 16, 4),
    "RepeatPrevious": (RepeatPrevious, 1, 16, 3),
}
_UNSIZED: dict[str, Callable[[], Task]] = {"Catch": Catch, "PixelCatch": PixelCatch}
_FORM = re.compile(r"mini/([A-Za-z]+?)(\d*)-v0")

# Undiscounted return of uniformly random actions, by enumeration, and of the best policy. Best returns without memory:
# 0 on TMaze, -0.5 on RepeatPrevious. Best return on DeepSea without the treasure: 0.
RETURNS: dict[str, tuple[float, float]] = {
    "mini/Catch-v0": (-0.6, 1.0),
    "mini/PixelCatch-v0": (-0.6, 1.0),
    "mini/SparseCatch2-v0": (0.04, 1.0),
    "mini/SparseCatch3-v0": (0.008, 1.0),
    "mini/DeepSea8-v0": (-0.0010938, 0.99),
    "mini/DeepSea12-v0": (-0.0047559, 0.99),
    "mini/TMaze10-v0": (-0.2045066, 1.0),
    "mini/TMaze20-v0": (-0.4049537, 1.0),
    "mini/KeyDoor3-v0": (0.0541451, 1.0),
    "mini/KeyDoor4-v0": (0.0221656, 1.0),
    "mini/RepeatPrevious3-v0": (-0.5, 1.0),
}


class MiniSuite(Suite):
    """Ids of the form `mini/Catch-v0` or, with a size, `mini/DeepSea8-v0`."""

    name = "mini"
    flags = frozenset()

    def claims(self, id: str) -> bool:
        """Return whether the id begins with `mini/`."""
        return id.startswith("mini/")

    def ids(self) -> list[str]:
        """Return the ids whose returns are known; other sizes exist too."""
        return list(RETURNS)

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return a vector of one task."""
        return MiniEnvironments(id, make_task(id), num_envs)


def make_task(id: str) -> Task:
    """Return the rules of the task with an id.

    Raises:
        ConfigError: the task does not exist, or its size is missing or out of range.
    """
    match = _FORM.fullmatch(id)
    if match is None:
        raise unknown_id(id)
    family, size = match.groups()
    if family in _UNSIZED and not size:
        return _UNSIZED[family]()
    if family not in _SIZED:
        raise unknown_id(id)
    build, least, most, usual = _SIZED[family]
    if not size or not least <= int(size) <= most:
        wrong = f"{id} must name a size in [{least}, {most}], got {size or 'none'}"
        raise env_error(wrong, f"use e.g. mini/{family}{usual}-v0")
    return build(int(size))


class MiniEnvironments:
    """`VectorEnvironment` over one task; all environments step in a few NumPy calls. Used from one thread.

    Args:
        id: the id that the user wrote.
        task: rules of the task.
        num_envs: number of environments in the vector.
    """

    def __init__(self, id: str, task: Task, num_envs: int):
        seen: ObservationSpec = task.frames or VectorSpec((task.num_features,))
        self.spec = EnvironmentSpec(id, {"observation": seen}, DiscreteActions(task.num_actions))
        self.num_envs = num_envs
        self._task = task
        self._indices = np.arange(num_envs)
        self.reset(None)

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere."""
        self._generator = np.random.default_rng(seed)
        self._state = self._task.begin(self._generator, self.num_envs)
        self._steps = np.zeros(self.num_envs, np.int64)
        self._over = np.zeros(self.num_envs, bool)
        self._actions: np.ndarray | None = None
        return {"observation": self._observe()}

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions for `recv`."""
        self._actions = np.array(actions, np.int64)

    def recv(self) -> list[Transition]:
        """Step every environment, or begin its next episode where one is over."""
        assert self._actions is not None, "recv without send"
        rewards, terminated = self._task.step(self._state, self._actions)
        self._actions = None
        self._steps += 1
        ignored = self._over
        if ignored.any():
            who = np.flatnonzero(ignored)
            for name, value in self._task.begin(self._generator, len(who)).items():
                self._state[name][who] = value
            self._steps[who] = 0
            rewards[who] = 0.0
            terminated[who] = False
        truncated = ~terminated & (self._steps >= self._task.max_steps)
        self._over = terminated | truncated
        observations = {"observation": self._observe()}
        return [Transition(self._indices.copy(), observations, rewards, terminated, truncated, ignored)]

    def render(self) -> None:
        """Return None: these tasks cannot be drawn."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the episodes and of the generator."""
        assert self._actions is None, "state_dict between send and recv"
        return {
            "state": {name: value.copy() for name, value in self._state.items()},
            "steps": self._steps.copy(),
            "over": self._over.copy(),
            "generator": self._generator.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Restore a state from `state_dict`."""
        self._state = {name: value.copy() for name, value in state["state"].items()}
        self._steps, self._over = state["steps"].copy(), state["over"].copy()
        self._generator.bit_generator.state = state["generator"]
        self._actions = None
        return {"observation": self._observe()}

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def _observe(self) -> np.ndarray:
        seen = self._task.observe(self._state)
        return seen if self._task.frames is None else seen[:, None]  # a stack of one
