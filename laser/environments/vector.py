"""Gymnasium vector environments, native or in processes, with every autoreset mode converted to next-step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from laser.environments import restoring
from laser.environments.base import RAISED, EnvironmentFailedError, Transition, failure_of
from laser.environments.results import read_flags, read_rewards
from laser.environments.spaces import ActionWriter, ObservationReader
from laser.environments.statistics import Statistics, merge_moments, read_wrappers, write_wrappers
from laser.environments.sync import draw
from laser.specs import EnvironmentSpec


class GymnasiumVector:
    """`VectorEnvironment` over a `gymnasium.vector.VectorEnv`.

    Next-step autoreset is passed on. Under same-step autoreset the final observation comes from `info["final_obs"]`
    and the reset is a second part; with autoreset disabled `recv` resets and returns the reset as a second part.

    Used from one thread. The step happens within `recv`.

    Args:
        spec: spec of one environment.
        environments: the vector; its metadata holds its autoreset mode.
        reader: reader of observations.
        writer: writer of actions.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        environments: gymnasium.vector.VectorEnv,
        reader: ObservationReader,
        writer: ActionWriter,
    ):
        self.spec = spec
        self.num_envs = environments.num_envs
        self._environments = environments
        self._autoreset = AutoresetMode(environments.metadata["autoreset_mode"])
        self._reader = reader
        self._writer = writer
        self._indices = np.arange(self.num_envs)
        self._over = np.zeros(self.num_envs, bool)
        self._actions: np.ndarray | None = None

    def statistics(self) -> Statistics:
        """Return the statistics of the vector's own wrappers, which see all environments, if they are finite."""
        moments = merge_moments([read_wrappers(self._environments)])
        return {0: moments} if moments else {}

    def give_statistics(self, statistics: Statistics, frozen: bool) -> bool:
        """Put statistics into the vector's own wrappers; return whether they fit."""
        return write_wrappers(self._environments, statistics.get(0, []), frozen)

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere."""
        try:
            observations, _ = self._environments.reset(seed=seed)
        except EnvironmentFailedError:
            raise
        except RAISED as error:
            raise failure_of(error) from error
        self._over = np.zeros(self.num_envs, bool)
        self._actions = None
        return self._reader.read_batch(observations, self.num_envs)

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions for `recv`."""
        self._actions = self._writer.write(actions)

    def recv(self) -> list[Transition]:
        """Step the vector; the second part, if any, holds the environments reset within the same step."""
        assert self._actions is not None, "recv without send"
        try:
            observations, rewards, terminated, truncated, info = self._environments.step(self._actions)
        except EnvironmentFailedError:
            raise
        except RAISED as error:
            raise failure_of(error) from error
        self._actions = None
        return self._transitions(observations, rewards, terminated, truncated, info)

    def render(self) -> np.ndarray | None:
        """Return a picture of environment 0 if the vector was made with `render_mode="rgb_array"`."""
        if self._environments.render_mode != "rgb_array":
            return None
        return draw(self.spec.id, self._draw)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the vector's state, or None; only the state of Gymnasium's own CartPole is known."""
        assert self._actions is None, "state_dict between send and recv"
        state = restoring.save_vector(self._environments)
        if state is None:
            return None
        return {"environments": state, "over": self._over.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Restore a state from `state_dict`."""
        restoring.load_vector(self._environments, state["environments"])
        self._over = state["over"].copy()
        self._actions = None
        return self._reader.read_batch(state["environments"]["state"].T, self.num_envs)

    def close(self) -> None:
        """Close the vector."""
        self._environments.close()

    def _draw(self) -> Any:
        pictures: Any = self._environments.render()
        return pictures[0]

    def _transitions(
        self, observations: Any, rewards: Any, terminated: Any, truncated: Any, info: dict[str, Any]
    ) -> list[Transition]:
        num_envs = self.num_envs
        read = self._reader.read_batch(observations, num_envs)
        rewards = read_rewards(rewards, num_envs)
        terminated = read_flags("terminated", terminated, num_envs)
        truncated = read_flags("truncated", truncated, num_envs)
        over = terminated | truncated
        if self._autoreset is AutoresetMode.NEXT_STEP:
            ignored, self._over = self._over, over
            if ignored.any():
                rewards[ignored] = 0.0
            return [Transition(self._indices.copy(), read, rewards, terminated, truncated, ignored)]
        nobody = np.zeros(num_envs, bool)
        step = Transition(self._indices.copy(), read, rewards, terminated, truncated, nobody)
        if not over.any():
            return [step]
        ended = np.flatnonzero(over)
        if self._autoreset is AutoresetMode.SAME_STEP:
            begun = {name: value[ended] for name, value in read.items()}
            final = self._reader.read_items(self._final_observations(info, ended))
            for name, value in final.items():
                read[name][ended] = value
        else:
            begun = self._reset_ended(over, ended)
        zeros = np.zeros(len(ended), bool)
        reset = Transition(
            ended, begun, np.zeros(len(ended), np.float32), zeros, zeros.copy(), np.ones(len(ended), bool)
        )
        return [step, reset]

    def _final_observations(self, info: dict[str, Any], ended: np.ndarray) -> list[Any]:
        # One object per environment (Gymnasium's vectors), one dense array (ALE), or a dict or tuple of dense arrays.
        final = info.get("final_obs")
        if final is None:
            raise EnvironmentFailedError(
                "wrong_shape", "info of a same-step autoreset must hold 'final_obs', got none at an episode's end"
            )
        if isinstance(final, (dict, tuple)):
            named = self._reader.named(final)
            return [{name: named[name][index] for name in self._reader.arrays} for index in ended]
        return [final[index] for index in ended]

    def _reset_ended(self, over: np.ndarray, ended: np.ndarray) -> dict[str, np.ndarray]:
        try:
            observations, _ = self._environments.reset(options={"reset_mask": over.copy()})
        except EnvironmentFailedError:
            raise
        except RAISED as error:
            raise failure_of(error) from error
        read = self._reader.read_batch(observations, self.num_envs)
        return {name: value[ended] for name, value in read.items()}
