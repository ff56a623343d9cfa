"""Array and environment specs: shape, dtype and bounds, and validation against them.

Specs are small, immutable and picklable: they travel between processes and into checkpoints (`to_json`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of one array (without time or batch axes).

    Args:
        shape: shape of one item.
        dtype: NumPy dtype name, e.g. "float32".
    """

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def size(self) -> int:
        """Number of elements of one item."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of one item."""
        return self.size * np.dtype(self.dtype).itemsize

    def validate(self, value: np.ndarray, name: str, num_leading: int = 0) -> None:
        """Raise ValueError, naming `name`, unless `value` has this dtype and, after `num_leading` axes, this shape."""
        if value.dtype != np.dtype(self.dtype):
            raise ValueError(f"{name} must have dtype {self.dtype}, got {value.dtype}")
        if value.shape[num_leading:] != self.shape or value.ndim != num_leading + len(self.shape):
            raise ValueError(f"{name} must have shape {self.shape} per item, got {value.shape[num_leading:]}")


@dataclass(frozen=True)
class FramesSpec:
    """An image observation: the newest `stack` frames, oldest first.

    Environments hand out `[stack, *frame_shape]` uint8; unrolls keep single frames; networks see
    `[channels, height, width]` (`channels = stack * colours`).

    Args:
        frame_shape: (height, width) for grey, (height, width, colours) for colour.
        stack: number of frames in one observation.
        padding: what a stack holds before the first frame of an episode: "zeros" or "repeat" (of the first frame).
        channels_first: whether the environment puts colours before height and width; LASER itself never does.
        high: largest value of a pixel, as the space declares it; 1 for pictures of bits. Networks see value / high.
        joined: number of pictures that the environment gives as one array of four axes, whose colours LASER joins to
            one picture of all their channels: nothing says that the array is a stack of the newest frames; 0: three
            axes at most.
    """

    frame_shape: tuple[int, ...]
    stack: int = 1
    padding: Literal["zeros", "repeat"] = "zeros"
    channels_first: bool = field(default=False, compare=False)
    high: int = 255
    joined: int = field(default=0, compare=False)

    @property
    def num_frame_bytes(self) -> int:
        """Bytes of one raw frame."""
        return math.prod(self.frame_shape)

    @property
    def channels(self) -> int:
        """Number of channels that a network sees."""
        return self.stack * (self.frame_shape[2] if len(self.frame_shape) == 3 else 1)

    @property
    def given_shape(self) -> tuple[int, ...]:
        """Shape of one observation in the environment; a stack that LASER has rebuilt keeps its axis."""
        shape = self.frame_shape
        if self.joined:
            shape = (self.joined, *shape[:2], shape[2] // self.joined)
        if self.channels_first:
            shape = (*shape[:-3], shape[-1], *shape[-3:-1])
        return shape if self.stack == 1 else (self.stack, *shape)

    def as_stored(self, given: np.ndarray) -> np.ndarray:
        """Return observations [N, *given_shape] with the axes [N, stack, *frame_shape], as a view if possible."""
        if self.channels_first:
            given = np.moveaxis(given, -3, -1)
        if self.joined:
            given = np.moveaxis(given, 1, -2)
        return given.reshape(len(given), self.stack, *self.frame_shape)

    def as_given(self, stored: np.ndarray) -> np.ndarray:
        """Return observations [N, stack, *frame_shape] with the axes [N, *given_shape]."""
        given = stored if self.stack > 1 else stored[:, 0]
        if self.joined:
            given = np.moveaxis(given.reshape(*given.shape[:-1], self.joined, -1), -2, 1)
        return np.moveaxis(given, -1, -3) if self.channels_first else given


VectorHolds = Literal["numbers", "integers", "bits"]
"""Kinds of numbers in a vector: any real ones, integers, or 0 and 1 of MultiBinary and of bools."""

Layout = Literal["", "channels_last", "channels_first"]
"""Order of a picture's axes: (height, width), with channels before or behind them; "": no picture."""


@dataclass(frozen=True)
class VectorSpec:
    """A vector observation, kept as a float32 column.

    Args:
        shape: shape of one observation; `()` for a scalar.
        alphabet: for a text: its letters; shape is then (longest text, letters), one-hot; "": no text.
        layout: for a picture that does not hold bytes: where its channels are; networks see its numbers as they are.
        holds: what the environment's numbers may be; everything else here is the same for all of them.
    """

    shape: tuple[int, ...]
    alphabet: str = ""
    layout: Layout = ""
    holds: VectorHolds = field(default="numbers", compare=False, repr=False)

    @property
    def picture(self) -> FramesSpec | None:
        """The frames that networks see in a picture; None for other vectors."""
        if not self.layout:
            return None
        *stack, first, middle, last = self.shape
        height, width, channels = (first, middle, last) if self.layout == "channels_last" else (middle, last, first)
        return FramesSpec((height, width, math.prod((*stack, channels))), high=1)


@dataclass(frozen=True)
class CategorySpec:
    """A categorical observation in [0, num_values), or an array of them, e.g. words; kept as int32.

    Args:
        num_values: number of values.
        shape: shape of one observation. Networks see a scalar as one-hot, and embed the values of an array.
        start: the environment's lowest value; everywhere else values start at 0.
        counts: number of values of each element, if they differ; each element then has a part of the range of its own,
            and `num_values` is their sum; (): all elements have the same range.
        starts: the environment's lowest value of each element, with `counts`.
        is_number: whether the environment gives a single number, which is kept as an array of one to be embedded.
    """

    num_values: int
    shape: tuple[int, ...] = ()
    start: int = field(default=0, compare=False)
    counts: tuple[int, ...] = ()
    starts: tuple[int, ...] = field(default=(), compare=False)
    is_number: bool = field(default=False, compare=False)


ACTION_MASK = "action_mask"
"""Name of the observation that says which actions are allowed."""


@dataclass(frozen=True)
class MaskSpec:
    """A mask of the actions that are allowed in a state, bool [sum(num_actions)]; networks do not see it.

    Args:
        num_actions: number of actions of each choice; their masks stand side by side.
    """

    num_actions: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one mask."""
        return (sum(self.num_actions),)


ObservationSpec = FramesSpec | VectorSpec | CategorySpec | MaskSpec


def picture_of(spec: ObservationSpec) -> FramesSpec | None:
    """Return the frames that networks see in an observation; None if it is no picture."""
    if isinstance(spec, FramesSpec):
        return spec
    return spec.picture if isinstance(spec, VectorSpec) else None


def is_numbers(spec: ObservationSpec) -> bool:
    """Return whether an observation is a vector of numbers: no picture, text or category."""
    return isinstance(spec, VectorSpec) and not spec.layout and not spec.alphabet


def has_pictures(observations: Mapping[str, ObservationSpec]) -> bool:
    """Return whether there is a picture among observations."""
    return any(picture_of(spec) for spec in observations.values())


@dataclass(frozen=True)
class DiscreteActions:
    """One choice among `num_actions`; actions are int64 scalars in [0, num_actions).

    Args:
        num_actions: number of actions.
        start: the environment's lowest action.
    """

    space: ClassVar[str] = "Discrete"
    num_actions: int
    start: int = field(default=0, compare=False)

    @property
    def array(self) -> ArraySpec:
        """Spec of one action."""
        return ArraySpec((), "int64")


@dataclass(frozen=True)
class MultiDiscreteActions:
    """Several independent choices; actions are int64 `[len(num_actions)]`, each counted from 0.

    Args:
        num_actions: number of actions of each choice.
        start: the environment's lowest action of each choice; empty: 0.
    """

    space: ClassVar[str] = "MultiDiscrete"
    num_actions: tuple[int, ...]
    start: tuple[int, ...] = field(default=(), compare=False)

    @property
    def array(self) -> ArraySpec:
        """Spec of one action."""
        return ArraySpec((len(self.num_actions),), "int64")


ActionBounds = Literal["clip", "none", "tanh"]


@dataclass(frozen=True)
class ContinuousActions:
    """A bounded real vector.

    Policies act on the scale of [-1, 1]^d, without clipping. The environment adapter maps to [low, high]. The policy's
    own sample is stored.

    Args:
        low: lower bounds of the environment, one per dimension.
        high: upper bounds.
        shape: shape of one action of the environment; None: one axis.
        bounds: what happens to samples beyond [-1, 1] before they are mapped: `clip`; `none`: they pass, so that the
            environment gets actions beyond its own bounds; `tanh`: the tanh of every sample is mapped.
    """

    space: ClassVar[str] = "Box"
    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...] | None = field(default=None, compare=False)
    bounds: ActionBounds = "clip"

    @property
    def array(self) -> ArraySpec:
        """Spec of one action."""
        return ArraySpec((len(self.low),), "float32")


ActionSpec = DiscreteActions | MultiDiscreteActions | ContinuousActions


@dataclass(frozen=True)
class EnvironmentSpec:
    """Spaces, action repeat and tasks of an environment. Environments are interchangeable iff `same_spaces` is True.

    Args:
        id: the id that the user wrote, e.g. "ALE/Pong-v5".
        observations: observation specs by name; a single unnamed observation is called "observation".
        actions: the action spec.
        action_repeat: frames per agent step (`frames = env steps * action_repeat`).
        tasks: task names; an unroll's `task` indexes this.
        saved_statistics: names of the running statistics of its wrappers, which checkpoints hold.
        unsaved_statistics: names of other statistics in its wrappers and in itself, which checkpoints leave out.
    """

    id: str
    observations: dict[str, ObservationSpec]
    actions: ActionSpec
    action_repeat: int = 1
    tasks: tuple[str, ...] = field(default=("",))
    saved_statistics: tuple[str, ...] = field(default=(), compare=False)
    unsaved_statistics: tuple[str, ...] = field(default=(), compare=False)

    @property
    def has_action_masks(self) -> bool:
        """Whether some actions may be forbidden in some states."""
        return isinstance(self.observations.get(ACTION_MASK), MaskSpec)

    def without_action_masks(self) -> EnvironmentSpec:
        """Return the spec with the observations that networks see."""
        seen: dict[str, ObservationSpec] = {
            name: spec for name, spec in self.observations.items() if not isinstance(spec, MaskSpec)
        }
        return replace(self, observations=seen)

    def same_spaces(self, other: EnvironmentSpec) -> bool:
        """Return whether an agent of one environment can learn from experience of the other."""
        return self.observations == other.observations and self.actions == other.actions

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value for `environment_spec_from_json`."""
        return {
            "id": self.id,
            "observations": {name: _tagged(spec) for name, spec in self.observations.items()},
            "actions": _tagged(self.actions),
            "action_repeat": self.action_repeat,
            "tasks": list(self.tasks),
        }


def environment_spec_from_json(value: dict[str, Any]) -> EnvironmentSpec:
    """Rebuild an `EnvironmentSpec` from `EnvironmentSpec.to_json`."""
    return EnvironmentSpec(
        id=value["id"],
        observations={name: _untagged(item) for name, item in value["observations"].items()},
        actions=_untagged(value["actions"]),
        action_repeat=value["action_repeat"],
        tasks=tuple(value["tasks"]),
    )


_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        FramesSpec,
        VectorSpec,
        CategorySpec,
        MaskSpec,
        DiscreteActions,
        MultiDiscreteActions,
        ContinuousActions,
    )
}


def _tagged(spec: Any) -> dict[str, Any]:
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(spec).items()}
    return {"kind": type(spec).__name__, **values}


def _untagged(value: dict[str, Any]) -> Any:
    arguments = {key: tuple(item) if isinstance(item, list) else item for key, item in value.items() if key != "kind"}
    return _KINDS[value["kind"]](**arguments)
