"""Vector environments of single Gymnasium environments, stepped one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from laser.environments import restoring
from laser.environments.base import (
    RAISED,
    EnvironmentFailedError,
    StepOfOthers,
    Transition,
    failure_of,
)
from laser.environments.results import read_flag, read_reward, read_rewards
from laser.environments.spaces import ActionWriter, ObservationReader
from laser.environments.statistics import Statistics, merge_moments, read_wrappers, write_wrappers
from laser.environments.suite import split_seed
from laser.specs import DiscreteActions, EnvironmentSpec


def draw(id: str, render: Callable[[], Any]) -> np.ndarray | None:
    """Return the picture from `render`, uint8 [height, width, 3]; else warn and return None.

    Drawing that fails must not end a run.
    """
    try:
        picture = np.asarray(render())
    except RAISED as error:  # drivers and displays fail in many ways
        warnings.warn(f"{id} cannot be drawn here: {failure_of(error)}", RuntimeWarning, stacklevel=3)
        return None
    if picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3 and picture.size:
        return picture
    got = "no numbers" if picture.dtype == object else f"{picture.dtype} {list(picture.shape)}"
    wrong = f"render() must return uint8 [height, width, 3], got {got}"
    warnings.warn(f"{id} cannot be drawn here: {wrong}", RuntimeWarning, stacklevel=3)
    return None


class SyncEnvironments:
    """`VectorEnvironment` over single environments, stepped within `recv`; one that fails can be rebuilt alone.

    Used from one thread. A step that hangs cannot be interrupted here, unlike with `async` vectorization.

    Args:
        spec: spec of the environments.
        makers: functions that build one environment each.
        reader: reader of observations.
        writer: writer of actions.
        first: the first environment, if it is made already.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        makers: list[Callable[[], gymnasium.Env]],
        reader: ObservationReader,
        writer: ActionWriter,
        first: gymnasium.Env | None = None,
    ):
        self.spec = spec
        self.num_envs = len(makers)
        self._makers = makers
        self._environments = [makers[0]() if first is None else first, *(make() for make in makers[1:])]
        self._reader = reader
        self._writer = writer
        self._indices = np.arange(self.num_envs)
        self._over = np.ones(self.num_envs, bool)
        self._actions: np.ndarray | None = None
        self._restorable = all(map(restoring.is_restorable, self._environments))
        self._latest: dict[str, np.ndarray] = {}

    def statistics(self) -> Statistics:
        """Return the statistics of the environments' wrappers, as far as they are finite."""
        moments = merge_moments([read_wrappers(environment) for environment in self._environments])
        return {0: moments} if moments else {}

    def give_statistics(self, statistics: Statistics, frozen: bool) -> bool:
        """Put statistics into the wrappers of every environment; return whether they fit."""
        fits = [write_wrappers(each, statistics.get(0, []), frozen) for each in self._environments]
        return all(fits)

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere."""
        seeds = split_seed(seed, self.num_envs)
        room = self._reader.allocate(self.num_envs)
        try:
            for index, environment in enumerate(self._environments):
                observation, _ = environment.reset(seed=seeds[index])
                self._reader.put(room, index, observation)
        except EnvironmentFailedError:
            raise
        except RAISED as error:
            raise failure_of(error) from error
        self._over = np.zeros(self.num_envs, bool)
        self._actions = None
        return self._remembered(self._reader.convert(room))

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions for `recv`."""
        self._actions = self._writer.write(actions)

    def recv(self) -> list[Transition]:
        """Step every environment, or reset it if its episode is over."""
        assert self._actions is not None, "recv without send"
        # Plain integers are faster than NumPy's, and every environment accepts them.
        actions: Any = self._actions.tolist() if isinstance(self.spec.actions, DiscreteActions) else self._actions
        self._actions = None
        num_envs, ignored = self.num_envs, self._over
        room = self._reader.allocate(num_envs)
        rewards = np.zeros(num_envs)
        terminated, truncated = np.zeros(num_envs, bool), np.zeros(num_envs, bool)
        begins = ignored.tolist()
        failures: dict[int, EnvironmentFailedError] = {}
        for index, environment in enumerate(self._environments):
            try:
                if begins[index]:
                    observation, _ = environment.reset()
                else:
                    observation, reward, terminal, timed_out, _ = environment.step(actions[index])
                    rewards[index] = read_reward(reward)
                    terminated[index] = read_flag("terminated", terminal)
                    truncated[index] = read_flag("truncated", timed_out)
                self._reader.put(room, index, observation)
            except RAISED as error:
                failures[index] = failure_of(error)
        observations, rewards = self._read(room, rewards, failures)
        failed = sorted(failures)
        if failures:
            terminated[failed], truncated[failed], ignored[failed] = False, False, True
        self._over = terminated | truncated
        step = Transition(self._indices.copy(), self._remembered(observations), rewards, terminated, truncated, ignored)
        if failures:
            alone = {index: failures[index] for index in failed}
            raise StepOfOthers(step, alone, partial(self._rebuild, failed)).error()
        return [step]

    def _read(
        self, room: dict[str, np.ndarray], rewards: np.ndarray, failures: dict[int, EnvironmentFailedError]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return observations and rewards of all environments, and add those with unusable ones to the failures.

        A failed environment's row is a copy of another one's, until it has an observation of its own.
        """
        while True:
            if failures:
                healthy = [index for index in range(self.num_envs) if index not in failures]
                if not healthy:
                    raise failures[min(failures)]
                for value in room.values():
                    value[list(failures)] = value[healthy[0]]
                rewards[list(failures)] = 0.0
            try:
                return self._reader.convert(room), read_rewards(rewards, self.num_envs)
            except EnvironmentFailedError:
                found = self._find_unusable(room, rewards)
                if not found:
                    raise
                failures.update(found)

    def _find_unusable(self, room: dict[str, np.ndarray], rewards: np.ndarray) -> dict[int, EnvironmentFailedError]:
        found = {}
        for index in range(self.num_envs):
            try:
                self._reader.convert({name: value[index : index + 1] for name, value in room.items()})
                read_rewards(rewards[index : index + 1], 1)
            except EnvironmentFailedError as error:
                words = str(error).replace("of environment 0", f"of environment {index}")
                found[index] = EnvironmentFailedError(error.reason, words)
        return found

    def _rebuild(self, failed: list[int], seed: int | None) -> dict[str, np.ndarray]:
        """Make these environments anew, with their wrappers' statistics, and return their first observations.

        Where an environment's own are not finite, it begins with a share of those of the others.
        """
        room, seeds = self._reader.allocate(len(failed)), split_seed(seed, len(failed))
        try:
            for place, index in enumerate(failed):
                moments = merge_moments([read_wrappers(self._environments[index])]) or self.statistics().get(0, [])
                with suppress(*RAISED):  # its failure is counted already
                    self._environments[index].close()
                self._environments[index] = self._makers[index]()
                write_wrappers(self._environments[index], moments, frozen=False)
                observation, _ = self._environments[index].reset(seed=seeds[place])
                self._reader.put(room, place, observation)
            observations = self._reader.convert(room)
        except RAISED as error:
            failure = failure_of(error)
            raise failure from failure.__cause__
        for name, latest in self._latest.items():
            latest[failed] = observations[name]
        return observations

    def render(self) -> np.ndarray | None:
        """Return a picture of environment 0 if it was made with `render_mode="rgb_array"`."""
        if self._environments[0].render_mode != "rgb_array":
            return None
        return draw(self.spec.id, self._environments[0].render)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state of all environments, or None if one of them cannot be restored."""
        if not self._restorable:
            return None
        assert self._actions is None, "state_dict between send and recv"
        return {
            "environments": [restoring.save(environment) for environment in self._environments],
            "over": self._over.copy(),
            "observations": {name: value.copy() for name, value in self._latest.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Restore a state from `state_dict`."""
        assert self._restorable, f"{self.spec.id} cannot be restored"
        for environment, own in zip(self._environments, state["environments"], strict=True):
            restoring.load(environment, own)
        self._over = state["over"].copy()
        self._actions = None
        return self._remembered({name: value.copy() for name, value in state["observations"].items()})

    def close(self) -> None:
        """Close every environment, even if one fails to."""
        with ExitStack() as stack:
            for environment in self._environments:
                stack.callback(environment.close)

    def _remembered(self, observations: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        # A copy, since the receiver may change the arrays.
        if self._restorable:
            self._latest = {name: value.copy() for name, value in observations.items()}
        return observations
