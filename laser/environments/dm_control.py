"""The DeepMind Control Suite: ids such as `dm_control/humanoid-run-v0`."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import gymnasium
import numpy as np

from laser.environments.base import VectorEnvironment
from laser.environments.config import EnvironmentConfig
from laser.environments.gymnasium import describe_spaces, let_mujoco_draw_without_a_display, say_mujoco_warnings_once
from laser.environments.processes import ProcessEnvironments
from laser.environments.suite import Suite, env_error, unknown_id
from laser.environments.sync import SyncEnvironments
from laser.environments.wrappers import wrap
from laser.packages import install_command, is_installed

_PREFIX, _SUFFIX = "dm_control/", "-v0"
HEIGHT, WIDTH = 240, 320


class DmControlSuite(Suite):
    """All tasks of the suite, `dm_control/DOMAIN-TASK-v0`."""

    name = "DeepMind Control Suite"
    flags = frozenset({"vectorization", "wrappers"})

    def claims(self, id: str) -> bool:
        """Return whether the id begins with `dm_control/`."""
        return id.startswith(_PREFIX)

    def ids(self) -> list[str]:
        """Return the ids of all tasks."""
        if not is_installed("dm-control"):
            return []
        return [f"{_PREFIX}{domain}-{task}{_SUFFIX}" for domain, task in _suite().ALL_TASKS]

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return environments one after the other, or in processes."""
        if not is_installed("dm-control"):
            raise env_error(f"{id} needs dm-control, which is not installed", install_command("dm-control"))
        if id not in self.ids():
            raise unknown_id(id)
        domain, _, task = id.removeprefix(_PREFIX).removesuffix(_SUFFIX).partition("-")
        make = functools.partial(_make, domain, task, config.wrappers)
        first = make()
        spec, reader, writer = describe_spaces(
            id, first, first.observation_space, first.action_space, config, "choose another task"
        )
        if config.vectorization == "async":
            first.close()
            return ProcessEnvironments(spec, [make] * num_envs, reader, writer, config.deadline_s)
        return SyncEnvironments(spec, [make] * num_envs, reader, writer, first)


def _make(domain: str, task: str, wrappers: str) -> gymnasium.Env:
    return wrap(DmControl(domain, task), wrappers)


class DmControl(gymnasium.Env[Any, Any]):
    """One task as a Gymnasium environment.

    The suite ends an episode at its time limit (1,000 steps) with a discount of 1, which is a truncation here; a
    discount of 0 is a termination. The lqr tasks have neither a time limit nor bounds on actions, and are refused.

    Args:
        domain: e.g. "humanoid".
        task: e.g. "run".
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, domain: str, task: str):
        self._random = np.random.RandomState()  # the type that the suite needs; one per task, seeded at a seeded reset
        self._task = _suite().load(domain, task, task_kwargs={"random": self._random})
        actions = self._task.action_spec()
        low, high = (np.broadcast_to(bound, actions.shape) for bound in (actions.minimum, actions.maximum))
        self.action_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        self.observation_space = gymnasium.spaces.Dict(
            {
                name: gymnasium.spaces.Box(-np.inf, np.inf, spec.shape, np.float64)
                for name, spec in self._task.observation_spec().items()
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self._random.seed(seed % 2**32)
        return self._observe(self._task.reset()), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Apply an action for one control step."""
        now = self._task.step(np.asarray(action, np.float64))
        terminated = bool(now.last() and now.discount == 0.0)
        return self._observe(now), float(now.reward), terminated, bool(now.last()) and not terminated, {}

    def render(self) -> Any:
        """Return a picture."""
        return self._task.physics.render(HEIGHT, WIDTH, camera_id=0)

    def close(self) -> None:
        """Free the simulation."""
        self._task.close()

    def _observe(self, now: Any) -> dict[str, np.ndarray]:
        return {name: np.asarray(value, np.float64) for name, value in now.observation.items()}


@functools.cache
def _suite() -> Any:
    let_mujoco_draw_without_a_display()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing displays
        from dm_control import suite
    say_mujoco_warnings_once()
    return suite
