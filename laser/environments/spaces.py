"""Conversion of Gymnasium spaces to specs, and of observations and actions at every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from laser.environments.base import EnvironmentFailedError
from laser.specs import (
    ActionSpec,
    CategorySpec,
    ContinuousActions,
    DiscreteActions,
    FramesSpec,
    MultiDiscreteActions,
    ObservationSpec,
    VectorSpec,
)

# Below this many pixels per side the smallest convolutional torso has no output: such arrays are vectors.
LEAST_FRAME_SIZE = 20
_SUPPORTED_OBSERVATIONS = "Box, Discrete, MultiDiscrete with as many values everywhere, or a Dict of those"
_NO_BOUND = 1e9
_SUPPORTED_ACTIONS = "Discrete, MultiDiscrete of one axis, and Box of floats with finite bounds"


class UnsupportedSpaceError(ValueError):
    """A space that LASER does not support; the message names it and the supported spaces."""


@dataclass(frozen=True)
class FrameStack:
    """A stack of image observations that the environment makes: its depth, and its padding at an episode's start."""

    depth: int
    padding: Literal["zeros", "repeat"]


@dataclass(frozen=True)
class ArrayReader:
    """Reads one array of an observation.

    Args:
        spec: spec of the converted array.
        shape: shape of one item in the environment.
        dtype: dtype in which items are collected before their conversion.
        holds_integers: whether the space's own dtype is one of integers.
    """

    spec: ObservationSpec
    shape: tuple[int, ...]
    dtype: str
    holds_integers: bool = False

    def check(self, name: str, value: np.ndarray, num_leading: int) -> None:
        """Raise EnvironmentFailedError unless the array has the shape and a dtype of its space."""
        if value.shape[num_leading:] != self.shape:
            raise EnvironmentFailedError(
                "wrong_shape", f"{name} must have shape {self.shape}, got {value.shape[num_leading:]}"
            )
        kind = value.dtype.kind
        if isinstance(self.spec, FramesSpec):
            fits, wanted = value.dtype == np.uint8, "uint8"
        elif isinstance(self.spec, CategorySpec):
            fits, wanted = kind in "iu", "an integer dtype"
        elif self.holds_integers:  # reals would be of another scale
            fits, wanted = kind in "iub", "an integer dtype, as its space says"
        else:
            fits, wanted = kind in "fiub", "a real dtype"
        if not fits:
            raise EnvironmentFailedError("wrong_shape", f"{name} must have {wanted}, got {value.dtype}")

    def convert(self, name: str, batch: np.ndarray) -> np.ndarray:
        """Convert checked items [M, *shape] to the form of the spec, in new memory; check the values."""
        if isinstance(self.spec, FramesSpec):
            if self.spec.channels_first:
                batch = np.moveaxis(batch, 1, -1)
            frames: np.ndarray = np.array(batch, order="C")
            return frames.reshape(len(batch), self.spec.stack, *self.spec.frame_shape)
        if isinstance(self.spec, CategorySpec):
            start, num_values = self.spec.start, self.spec.num_values
            categories: np.ndarray = np.subtract(batch, start, dtype=np.int64, casting="unsafe").astype(np.int32)
            if ((categories < 0) | (categories >= num_values)).any():
                wrong = f"{name} must be in [{start}, {start + num_values - 1}], got {batch}"
                raise EnvironmentFailedError("wrong_shape", wrong)
            return categories
        with np.errstate(over="ignore"):
            values = np.array(batch, np.float32, order="C")
        if not np.isfinite(values).all():
            if np.isfinite(batch).all():
                raise EnvironmentFailedError("not_finite", f"{name} does not fit float32: {_first_bad(values, batch)}")
            raise EnvironmentFailedError("not_finite", f"{name} is not finite: {_first_bad(batch)}")
        if self.holds_integers and (values != batch).any():
            inexact = int(batch[values != batch][0])
            raise EnvironmentFailedError(
                "not_finite", f"{name} holds the integer {inexact}, which float32 cannot hold; scale or split it"
            )
        return values


@dataclass(frozen=True)
class ObservationReader:
    """Reads whole observations; `is_dict` is True if the environment names its arrays itself."""

    arrays: dict[str, ArrayReader]
    is_dict: bool

    @property
    def specs(self) -> dict[str, ObservationSpec]:
        """Observation specs by name."""
        return {name: reader.spec for name, reader in self.arrays.items()}

    def allocate(self, num: int) -> dict[str, np.ndarray]:
        """Return uninitialised arrays for `num` items in the environment's form."""
        return {name: np.empty((num, *reader.shape), reader.dtype) for name, reader in self.arrays.items()}

    def put(self, room: dict[str, np.ndarray], index: int, observation: Any) -> None:
        """Check the observation of one environment and write it into `room`."""
        named = self._named(observation)
        for name, reader in self.arrays.items():
            value = np.asarray(named[name])
            reader.check(name, value, 0)
            room[name][index] = value

    def check(self, observation: Any) -> None:
        """Raise EnvironmentFailedError unless one observation has the shapes and dtypes of the space."""
        named = self._named(observation)
        for name, reader in self.arrays.items():
            reader.check(name, np.asarray(named[name]), 0)

    def convert(self, room: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Convert collected items to the form of the specs, in new memory."""
        return {name: reader.convert(name, room[name]) for name, reader in self.arrays.items()}

    def read_batch(self, observations: Any, num: int) -> dict[str, np.ndarray]:
        """Check and convert the observations of a vector environment, [num, ...] per array."""
        named = self._named(observations)
        converted = {}
        for name, reader in self.arrays.items():
            value = np.asarray(named[name])
            if value.shape[:1] != (num,):
                raise EnvironmentFailedError("wrong_shape", f"{name} must have {num} rows, got shape {value.shape}")
            reader.check(name, value, 1)
            converted[name] = reader.convert(name, value)
        return converted

    def read_items(self, observations: list[Any]) -> dict[str, np.ndarray]:
        """Check and convert observations given one by one."""
        room = self.allocate(len(observations))
        for index, observation in enumerate(observations):
            self.put(room, index, observation)
        return self.convert(room)

    def _named(self, observation: Any) -> Mapping[str, Any]:
        if not self.is_dict:
            return {"observation": observation}
        if not isinstance(observation, Mapping) or not observation.keys() >= self.arrays.keys():
            got = sorted(observation) if isinstance(observation, Mapping) else type(observation).__name__
            raise EnvironmentFailedError("wrong_shape", f"observation must have keys {sorted(self.arrays)}, got {got}")
        return observation


def observation_reader(space: spaces.Space[Any], stack: FrameStack | None = None) -> ObservationReader:
    """Return the reader for an observation space.

    Args:
        space: observation space of one environment.
        stack: frame stack of a wrapper, if there is one; image arrays then have the stack as their first axis.

    Raises:
        UnsupportedSpaceError: the message names the part that is not supported.
    """
    if isinstance(space, spaces.Dict):
        if not space.spaces:
            raise UnsupportedSpaceError("observation space Dict() is empty; it must hold at least one Box or Discrete")
        arrays = {str(name): _array_reader(str(name), part, stack) for name, part in space.spaces.items()}
        return ObservationReader(arrays, is_dict=True)
    return ObservationReader({"observation": _array_reader("observation", space, stack)}, is_dict=False)


def _array_reader(name: str, space: spaces.Space[Any], stack: FrameStack | None) -> ArrayReader:
    if isinstance(space, spaces.Discrete):
        return ArrayReader(CategorySpec(int(space.n), start=int(space.start)), (), "int64")
    if isinstance(space, spaces.MultiDiscrete) and np.ptp(space.nvec) == 0 and np.ptp(space.start) == 0:
        spec = CategorySpec(int(space.nvec.flat[0]), space.shape, start=int(space.start.flat[0]))
        return ArrayReader(spec, space.shape, "int64")
    if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiub":
        raise UnsupportedSpaceError(f"{name} has the space {space}; supported are {_SUPPORTED_OBSERVATIONS}")
    shape, dtype = space.shape, str(space.dtype)
    if 0 in shape:
        raise UnsupportedSpaceError(f"{name} has the space {space}, which holds no numbers; leave it out")
    if dtype == "uint8":
        if stack is not None and _is_image(shape[1:]):
            return ArrayReader(FramesSpec(shape[1:], stack.depth, stack.padding), shape, dtype)
        if _is_image(shape):
            return ArrayReader(FramesSpec(shape), shape, dtype)
        # Without a stacking wrapper, these channels need not be a rolling stack: keep all of them.
        if len(shape) == 3 and _is_image((*shape[1:], shape[0])):
            return ArrayReader(FramesSpec((*shape[1:], shape[0]), channels_first=True), shape, dtype)
    # Narrow floats are widened when they are collected; float64 is cast once, when the batch is converted.
    collected = "float64" if dtype not in ("float32", "float16") else "float32"
    return ArrayReader(VectorSpec(shape), shape, collected, holds_integers=space.dtype.kind in "iu")


def _is_image(shape: tuple[int, ...]) -> bool:
    """Return whether a uint8 shape is (height, width) or (height, width, few colours) of a useful size."""
    if len(shape) not in (2, 3) or min(shape[:2]) < LEAST_FRAME_SIZE:
        return False
    return len(shape) == 2 or shape[2] <= 16


def _first_bad(values: np.ndarray, original: np.ndarray | None = None) -> str:
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
    value = (values if original is None else original)[index]
    return f"{value} at index {list(index[1:])} of environment {index[0]}"


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
        """Return actions [N, ...] for the environments: choices shifted, reals clipped to [-1, 1] and mapped."""
        if not isinstance(self.spec, ContinuousActions):
            if not self.spec.start:
                return np.array(actions, self.dtype)
            shifted: np.ndarray = np.add(actions, self.spec.start, dtype=np.dtype(self.dtype), casting="unsafe")
            return shifted
        low, high, half = self._bounds
        # Not `np.clip`, which takes twice as long as minimum and maximum together.
        mapped: np.ndarray = low + half * (np.minimum(np.maximum(actions, -1.0), 1.0) + 1.0)
        # Clipped again, since rounding may exceed the bounds.
        mapped = np.minimum(np.maximum(mapped, low), high).astype(self.dtype)
        return mapped if self.spec.shape is None else mapped.reshape(len(actions), *self.spec.shape)

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower bounds, upper bounds and half of their difference, [d]; cached, not computed at every step."""
        assert isinstance(self.spec, ContinuousActions)
        low, high = np.asarray(self.spec.low), np.asarray(self.spec.high)
        return low, high, (high - low) * 0.5


def action_writer(space: spaces.Space[Any]) -> ActionWriter:
    """Return the writer for an action space.

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
        return ActionWriter(ContinuousActions(tuple(low.tolist()), tuple(high.tolist()), space.shape), str(space.dtype))
    raise UnsupportedSpaceError(f"the action space is {space}; supported are {_SUPPORTED_ACTIONS}")
