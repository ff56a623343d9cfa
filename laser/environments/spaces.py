"""Conversion of Gymnasium spaces to specs, and of whole observations and actions at every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from laser.environments.arrays import ArrayReader, FrameStack, UnsupportedSpaceError, array_reader
from laser.environments.base import EnvironmentFailedError
from laser.environments.pictures import PictureRule
from laser.specs import (
    ACTION_MASK,
    ActionBounds,
    ActionSpec,
    ContinuousActions,
    DiscreteActions,
    MaskSpec,
    MultiDiscreteActions,
    ObservationSpec,
)

_NO_BOUND = 1e9
_LARGEST_TANH = 1.0 - 2.0**-24
_SUPPORTED_ACTIONS = "Discrete, MultiDiscrete of one axis, and Box of floats with finite bounds"


@dataclass(frozen=True)
class ObservationReader:
    """Reads whole observations.

    Args:
        arrays: readers by name; the arrays inside a Dict or Tuple are named by their path, such as `robot/arms/0`.
        is_nested: whether the environment gives its arrays in a Dict or Tuple.
    """

    arrays: dict[str, ArrayReader]
    is_nested: bool

    @property
    def specs(self) -> dict[str, ObservationSpec]:
        """Observation specs by name."""
        return {name: reader.spec for name, reader in self.arrays.items()}

    def allocate(self, num: int) -> dict[str, np.ndarray]:
        """Return uninitialised arrays for `num` items in the environment's form."""
        return {name: np.empty((num, *reader.shape), reader.dtype) for name, reader in self.arrays.items()}

    def put(self, room: dict[str, np.ndarray], index: int, observation: Any) -> None:
        """Check the observation of one environment and write it into `room`."""
        named = self.named(observation)
        for name, reader in self.arrays.items():
            room[name][index] = reader.array_of(name, named[name], 0)

    def check(self, observation: Any) -> None:
        """Raise EnvironmentFailedError unless one observation has the shapes and dtypes of the space."""
        named = self.named(observation)
        for name, reader in self.arrays.items():
            reader.array_of(name, named[name], 0)

    def convert(self, room: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Convert collected items to the form of the specs, in new memory."""
        return {name: reader.convert(name, room[name]) for name, reader in self.arrays.items()}

    def read_batch(self, observations: Any, num: int) -> dict[str, np.ndarray]:
        """Check and convert the observations of a vector environment, [num, ...] per array."""
        named = self.named(observations)
        converted = {}
        for name, reader in self.arrays.items():
            value = named[name]
            if not hasattr(value, "__len__") or len(value) != num:
                got = f"shape {np.shape(value)}" if not isinstance(value, (list, tuple)) else f"{len(value)} rows"
                raise EnvironmentFailedError("wrong_shape", f"{name} must have {num} rows, got {got}")
            value = reader.array_of(name, value, 1)
            converted[name] = reader.convert(name, value)
        return converted

    def read_items(self, observations: list[Any]) -> dict[str, np.ndarray]:
        """Check and convert observations given one by one."""
        room = self.allocate(len(observations))
        for index, observation in enumerate(observations):
            self.put(room, index, observation)
        return self.convert(room)

    def named(self, observation: Any) -> Mapping[str, Any]:
        """Return the arrays of an observation by their names, as the environment gave them.

        Raises:
            EnvironmentFailedError: one is missing.
        """
        if not self.is_nested:
            return {"observation": observation}
        if isinstance(observation, Mapping) and observation.keys() >= self.arrays.keys():
            return observation
        try:
            return {name: _part(observation, name) for name in self.arrays}
        except (LookupError, ValueError):
            got = sorted(_names(observation)) or type(observation).__name__
            wrong = f"observation must have keys {sorted(self.arrays)}, got {got}"
            raise EnvironmentFailedError("wrong_shape", wrong) from None


def observation_reader(
    space: spaces.Space[Any],
    stack: FrameStack | None = None,
    pictures: PictureRule = PictureRule(),
    masks: MaskSpec | None = None,
) -> ObservationReader:
    """Return the reader for an observation space.

    Args:
        space: observation space of one environment.
        stack: frame stack of a wrapper, if there is one; image arrays then have the stack as their first axis.
        pictures: says which arrays are pictures.
        masks: spec of the array `action_mask`, if it is one of bools that says which actions are allowed.

    Raises:
        UnsupportedSpaceError: the message names the part that is not supported.
    """
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return ObservationReader({"observation": array_reader("observation", space, stack, pictures)}, is_nested=False)
    arrays = {}
    for name, part in _parts("", space):
        if name in arrays:
            raise UnsupportedSpaceError(f"two arrays of the observation are called {name}; rename one of them")
        if name == ACTION_MASK and masks is not None:
            arrays[name] = ArrayReader(masks, masks.shape, "bool")
        else:
            arrays[name] = array_reader(name, part, stack, pictures)
    return ObservationReader(arrays, is_nested=True)


def _parts(name: str, space: spaces.Space[Any]) -> Iterator[tuple[str, spaces.Space[Any]]]:
    """Yield the arrays inside a space by the names of their paths."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        yield name, space
        return
    inside: Any = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    if not space.spaces:
        what = f"{name or 'observation'} has the space {space}, which is empty"
        raise UnsupportedSpaceError(f"{what}; leave it out, or give it a Box or Discrete")
    for key, part in inside:
        if "/" in str(key) and isinstance(part, spaces.Dict | spaces.Tuple):
            raise UnsupportedSpaceError(f"the key {key!r} of a Dict within a Dict holds a slash; rename it")
        yield from _parts(f"{name}/{key}" if name else str(key), part)


def _part(observation: Any, name: str) -> Any:
    """Return the part of a nested observation at a path."""
    key: Any
    while True:
        if isinstance(observation, Mapping) and name in observation:
            return observation[name]
        head, slash, name = name.partition("/")
        if not isinstance(observation, (Mapping, tuple, list)):
            raise LookupError(head)
        key = head if isinstance(observation, Mapping) else int(head)
        observation = observation[key]
        if not slash:
            return observation


def _names(observation: Any, prefix: str = "") -> Iterator[str]:
    inside: Any = ()
    if isinstance(observation, (Mapping, tuple)):
        inside = observation.items() if isinstance(observation, Mapping) else enumerate(observation)
    elif prefix:
        yield prefix
    for key, part in inside:
        yield from _names(part, f"{prefix}/{key}" if prefix else str(key))


@dataclass(frozen=True)
class ActionWriter:
    """Converts a policy's actions to those of the environment.

    Args:
        spec: action spec of the policy.
        dtype: dtype of the environment's actions.
    """

    spec: ActionSpec
    dtype: str

    def write(self, actions: np.ndarray) -> np.ndarray:
        """Return actions [N, ...] for the environments: choices shifted, reals bounded and mapped."""
        if not isinstance(self.spec, ContinuousActions):
            if not self.spec.start:
                return np.array(actions, self.dtype)
            shifted: np.ndarray = np.add(actions, self.spec.start, dtype=np.dtype(self.dtype), casting="unsafe")
            return shifted
        low, high, half = self._bounds
        if self.spec.bounds == "clip":
            # Not `np.clip`, which takes twice as long as minimum and maximum together.
            actions = np.minimum(np.maximum(actions, -1.0), 1.0)
        elif self.spec.bounds == "tanh":
            actions = np.tanh(actions)
        mapped: np.ndarray = low + half * (actions + 1.0)
        if self.spec.bounds != "none":  # rounding may exceed the bounds
            mapped = np.minimum(np.maximum(mapped, low), high)
        mapped = mapped.astype(self.dtype)
        return mapped if self.spec.shape is None else mapped.reshape(len(actions), *self.spec.shape)

    def read(self, actions: np.ndarray) -> np.ndarray:
        """Return the actions of policies [N, ...] that `write` turns into those of the environments.

        Under tanh those at the bounds come from samples of about 8.
        """
        if not isinstance(self.spec, ContinuousActions):
            shifted: np.ndarray = np.subtract(actions, self.spec.start or 0, dtype=np.int64, casting="unsafe")
            return shifted
        low, _, half = self._bounds
        flat = np.asarray(actions, np.float64).reshape(len(actions), -1)
        read: np.ndarray = (flat - low) / half - 1.0
        if self.spec.bounds == "tanh":
            read = np.arctanh(np.clip(read, -_LARGEST_TANH, _LARGEST_TANH))
        return read.astype(np.float32)

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower bounds, upper bounds and half of their difference, [d]; cached, not computed at every step."""
        assert isinstance(self.spec, ContinuousActions)
        low, high = np.asarray(self.spec.low), np.asarray(self.spec.high)
        return low, high, (high - low) * 0.5


def action_writer(space: spaces.Space[Any], bounds: ActionBounds = "clip") -> ActionWriter:
    """Return the writer for an action space.

    Args:
        space: action space of one environment.
        bounds: see `ContinuousActions`.

    Raises:
        UnsupportedSpaceError: the message names the space, or a dimension without bounds.
    """
    if isinstance(space, spaces.Discrete):
        return ActionWriter(DiscreteActions(int(space.n), start=int(space.start)), str(space.dtype))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        start = tuple(int(value) for value in space.start)
        nvec = tuple(int(value) for value in space.nvec)
        return ActionWriter(MultiDiscreteActions(nvec, start=start), str(space.dtype))
    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and 0 not in space.shape:
        low, high = space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()
        # Bounds such as the largest float32, or MuJoCo's 1e10, also mean that there is no bound.
        unbounded = np.flatnonzero(~((low > -_NO_BOUND) & (high < _NO_BOUND)))
        if unbounded.size:
            index = int(unbounded[0])
            raise UnsupportedSpaceError(
                f"the action Box must have finite bounds, got [{low[index]:g}, {high[index]:g}] in dimension {index}; "
                "declare the bounds it really has, in the environment or with gymnasium.wrappers.TransformAction"
            )
        actions = ContinuousActions(tuple(low.tolist()), tuple(high.tolist()), space.shape, bounds)
        return ActionWriter(actions, str(space.dtype))
    raise UnsupportedSpaceError(f"the action space is {space}; supported are {_SUPPORTED_ACTIONS}")
