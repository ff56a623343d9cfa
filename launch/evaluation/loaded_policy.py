"""A trained agent as an object for users' own programs: observations in, actions out, for one environment or many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from actors.policy import Policy, PolicyState
from laser.environments.action_masks import read_mask, read_masks
from laser.environments.arrays import ArrayReader
from laser.environments.base import EnvironmentFailedError
from laser.environments.results import read_rewards
from laser.environments.spaces import ActionWriter, ObservationReader
from laser.environments.statistics import Statistics, write_wrappers
from laser.specs import (
    ACTION_MASK,
    CategorySpec,
    ContinuousActions,
    DiscreteActions,
    EnvironmentSpec,
    FramesSpec,
    MaskSpec,
    ObservationSpec,
    VectorSpec,
)


class LoadedPolicy:
    """A trained agent: `action = policy.act(observation)`, or `actions = policy.act(observations)` for a batch.

    The object holds the state of recurrent agents between steps; call `reset()` when an episode begins. Not
    thread-safe.
    """

    def __init__(self, policy: Policy, environment: EnvironmentSpec, statistics: Statistics | None = None):
        self.environment = environment
        self._statistics = statistics or {}
        self._policy = policy
        self._greedy = policy.greedy
        is_real = isinstance(environment.actions, ContinuousActions)
        self._writer = ActionWriter(environment.actions, "float32" if is_real else "int64")
        self._arrays = {
            name: ArrayReader(spec, _shape(spec), "uint8", spec.holds if isinstance(spec, VectorSpec) else "numbers")
            for name, spec in environment.without_action_masks().observations.items()
        }
        self._state = self.initial_state()

    def prepare(self, environment: Any, task: int = 0) -> None:
        """Put the statistics of the training into the wrappers of an environment, such as NormalizeObservation.

        They stay as they are from then on. Nothing is done for an agent that was trained without such wrappers.

        Args:
            environment: a Gymnasium environment or vector, with the wrappers of the training in the same order.
            task: the number of its task, for an agent of several.

        Raises:
            ValueError: it has other wrappers.
        """
        moments = self._statistics.get(task, [])
        if moments and not write_wrappers(environment, moments, frozen=True):
            names = ", ".join(each.name for each in moments)
            raise ValueError(f"the environment must have the wrappers of the training, the outermost first: {names}")

    def initial_state(self, num_envs: int = 1) -> PolicyState:
        """Return the state at the beginning of an episode, for a caller that keeps the state itself."""
        return PolicyState(num_envs, self.environment, self._policy.algorithm)

    def reset(self, where: np.ndarray | None = None) -> None:
        """Begin an episode.

        Args:
            where: bool [N], or 0 and 1, the environments of a batch in which an episode begins; None: everywhere.

        Raises:
            ValueError: it holds something else, or is of another number of environments.
        """
        if where is None:
            self._state = self.initial_state()
            return
        state = self._state
        begins = np.asarray(where)
        if begins.shape != state.first.shape:
            raise ValueError(f"where must have shape {state.first.shape}, got {begins.shape}")
        if begins.dtype.kind not in "biu" or not np.isin(begins, (0, 1)).all():
            raise ValueError(f"where must hold True or False of each environment, got {begins.tolist()}")
        begins = begins.astype(bool)  # integers would be indices
        values, fresh = state.state_dict(), self.initial_state(len(state.first)).state_dict()
        for name, value in values.items():
            value[begins] = fresh[name][begins]
        state.load_state_dict(values)

    def act(
        self,
        observation: Any,
        reward: Any = 0.0,
        *,
        greedy: bool | None = None,
        state: PolicyState | None = None,
        action_mask: Any = None,
    ) -> Any:
        """Choose an action in the environment's format, or one for each observation of a batch.

        Args:
            observation: as the Gymnasium environment returned it, or a batch as a vector environment returns it: with a
                first axis of length N in every array. Frames are `[stack, height, width]`, or in the environment's own
                shape; `[1, height, width]` is one frame, and a batch of one is `[1, 1, height, width]`.
            reward: of the last action, a number or [N]; only agents that take it as input need it.
            greedy: True: the most likely action; False: a sample; None: as the policy was loaded.
            state: state from `initial_state`, which is updated; None: the state that the policy keeps.
            action_mask: allowed actions, as `info["action_mask"]` has them, or [N, ...] for a batch; needed by an agent
                that was trained with masks, unless the observation holds them.

        Returns:
            an int, an int array, or a float array in the environment's units; of a batch: an array [N, ...].

        Raises:
            ValueError: the observation does not fit the environment that the agent was trained on, the reward is no
                finite number, or the state belongs to another number of environments.
        """
        arrays, is_batch = self._read(observation)
        num_envs = len(next(iter(arrays.values())))
        arrays |= self._read_mask(observation, action_mask, num_envs, is_batch)
        own = state if state is not None else self._kept_state(num_envs)
        if len(own.first) != num_envs:
            raise ValueError(f"state is of {len(own.first)} environments, and there are {num_envs} observations")
        own.last_reward[:] = _read_rewards(reward, num_envs)
        self._policy.greedy = self._greedy if greedy is None else greedy
        actions, _ = self._policy.act(arrays, own)
        own.first[:] = False
        own.last_action[:] = actions
        written = self._writer.write(actions)
        if is_batch:
            return written
        return written[0].item() if isinstance(self.environment.actions, DiscreteActions) else np.asarray(written[0])

    def _kept_state(self, num_envs: int) -> PolicyState:
        if len(self._state.first) != num_envs:
            if self._state.core_state and not self._state.first.all():
                num = len(self._state.first)
                raise ValueError(
                    f"the policy remembers {num} environments, got {num_envs} observations; reset() it first"
                )
            self._state = self.initial_state(num_envs)
        return self._state

    def _read(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Return observations [N, ...] in the form of the specs, and whether they were a batch."""
        is_nested = isinstance(observation, Mapping) or set(self._arrays) != {"observation"}
        found, num_rows = {}, set()
        try:
            named = ObservationReader(self._arrays, is_nested).named(observation)
            for name, reader in self._arrays.items():
                found[name], is_batch = _read_array(name, reader, named[name])
                num_rows.add(len(found[name]) if is_batch else 0)
        except EnvironmentFailedError as error:
            raise ValueError(str(error)) from error
        if len(num_rows) > 1:
            raise ValueError(f"every array of a batch must have as many rows, got {sorted(num_rows)} (0: no batch)")
        return found, num_rows != {0}

    def _read_mask(self, observation: Any, action_mask: Any, num_envs: int, is_batch: bool) -> dict[str, np.ndarray]:
        """Return the masks, bool [N, ...], as an observation; nothing for an agent without masks."""
        spec = self.environment.observations.get(ACTION_MASK)
        if not isinstance(spec, MaskSpec):
            if action_mask is not None:
                raise ValueError("the agent was trained without action masks; leave action_mask out")
            return {}
        if action_mask is None and isinstance(observation, Mapping):
            action_mask = observation.get(ACTION_MASK)
        if action_mask is None:
            raise ValueError("the agent was trained with action masks; give action_mask=info['action_mask']")
        try:
            if is_batch:
                return {ACTION_MASK: read_masks(spec, action_mask, np.zeros(num_envs, bool))}
            return {ACTION_MASK: read_mask(spec, action_mask, over=False)[None]}
        except EnvironmentFailedError as error:
            raise ValueError(str(error)) from error


def _shape(spec: ObservationSpec) -> tuple[int, ...]:
    return (spec.stack, *spec.frame_shape) if isinstance(spec, FramesSpec) else spec.shape


def _read_rewards(reward: Any, num_envs: int) -> np.ndarray:
    """Return the rewards [N] of N environments, which may have one number in common."""
    rewards = np.asarray(reward)
    if rewards.dtype.kind not in "fiub" or rewards.shape not in ((), (num_envs,)):
        raise ValueError(f"reward must be a number, or {num_envs} numbers for {num_envs} observations, got {reward!r}")
    try:
        return read_rewards(np.broadcast_to(rewards, num_envs), num_envs)
    except EnvironmentFailedError as error:
        raise ValueError(str(error)) from error


def _read_array(name: str, reader: ArrayReader, value: Any) -> tuple[np.ndarray, bool]:
    """Return an array [N, ...] in the form of its spec, and whether it was a batch."""
    spec, shape = reader.spec, reader.shape
    if isinstance(spec, VectorSpec) and spec.alphabet:
        is_batch = not isinstance(value, str)
        return reader.array_of(name, value if is_batch else [value], 1), is_batch
    array = np.asarray(value)
    if isinstance(spec, FramesSpec):
        own = spec.frame_shape
        # The spec does not say whether 0 and 1 were bools, bytes or those of MultiBinary.
        if spec.high == 1 and array.dtype.kind in "biuf" and ((array == 0) | (array == 1)).all():
            array = array.astype(np.uint8, copy=False)
        if spec.joined and array.shape[-4:] == spec.given_shape:
            array = spec.as_stored(array.reshape(-1, *spec.given_shape)).reshape(*array.shape[:-4], *shape)
        if spec.channels_first and not spec.joined and array.ndim >= 3 and array.shape[-2:] == own[:2]:
            array = np.moveaxis(array, -3, -1)
        if spec.stack == 1 and array.shape[-len(own) :] == own and array.shape[-len(shape) :] != shape:
            array = np.expand_dims(array, -len(own) - 1)
    elif isinstance(spec, CategorySpec) and spec.is_number:
        array = array[..., None]
    is_batch = array.shape != shape
    if is_batch and (array.shape[1:] != shape or not len(array)):
        raise ValueError(
            f"observation {name} must have shape {shape}, or (N, ...) of it for a batch, got {np.shape(value)}"
        )
    rows = array if is_batch else array[None]
    reader.check(name, rows, 1)
    return np.array(rows, np.uint8, order="C") if isinstance(spec, FramesSpec) else reader.convert(name, rows), is_batch
