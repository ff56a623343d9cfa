"""The unroll, the record of experience: T consecutive rows of one environment, and the definition of time alignment.

Row t of an unroll holds

    observations[t], first[t]      the policy's input, and whether an episode begins there
    actions[t], mu[t]              the policy's own sample (before clipping or squashing) and all of its statistics
    rewards[t], terminated[t]      the result of the action
    valid[t]                       False where the row holds no transition

`observations` and `first` have T+1 rows; row T only bootstraps and is row 0 of the environment's next unroll. The
learner computes the discounts: `discounts[t] = gamma * (1 - terminated[t])`.

An episode's end, by termination, by truncation or by a failure of its environment, is followed by one extra row with
`valid = False` that holds the true final observation; its action, reward and mu have no meaning. The row after it has
`first = True`. So `V(observations[t+1])` is always the value to bootstrap from, and no later code realigns rows or
checks "done".

`Unrolls` is N unrolls side by side (a struct of arrays, environment-major): actors insert them, and shards store them
and hand them out. Arrays are `[N, T, ...]` (fields of rows), `[N, T+1, ...]` (boundaries) or `[N, ...]` (once).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from laser.specs import ArraySpec, CategorySpec, EnvironmentSpec, FramesSpec, MaskSpec

# Origin of an unroll. (run, actor, incarnation, environment, sequence) is its unique id; `sequence` counts
# from 0 per (actor, incarnation, environment). Actors with numbers below 0 read a log. `step_in_episode` and `episode`
# are those of row 0.
HEADER_DTYPE = np.dtype(
    [
        ("run", np.uint64),
        ("actor", np.int32),
        ("incarnation", np.int32),
        ("environment", np.int32),
        ("sequence", np.int64),
        ("member", np.int32),
        ("task", np.int32),
        ("episode", np.int64),
        ("step_in_episode", np.int64),
        ("parameter_version", np.int64),
    ]
)

Rows = Literal["steps", "boundaries", "once"]


@dataclass(frozen=True)
class Field:
    """One array of an unroll: its spec and whether it has T rows, T+1 rows or one."""

    array: ArraySpec
    rows: Rows


@dataclass(frozen=True)
class UnrollSpec:
    """The layout of the unrolls of one environment and one kind of behaviour policy.

    Args:
        unroll_length: T, rows per unroll, valid or not.
        environment: spaces of the environment.
        behaviour: statistics of mu by name, e.g. {"logits": ArraySpec((4,))}.
        core_state: recurrent state before row 0 by name; empty for feed-forward agents.
    """

    unroll_length: int
    environment: EnvironmentSpec
    behaviour: dict[str, ArraySpec]
    core_state: dict[str, ArraySpec] = field(default_factory=dict)

    @cached_property
    def fields(self) -> dict[str, Field]:
        """All uncompressed arrays by name; groups are written with a slash (`observations/x`, `mu/logits`)."""
        actions = self.environment.actions.array
        fields = {}
        for name, spec in self.environment.observations.items():
            if isinstance(spec, FramesSpec):
                continue
            dtype = "bool" if isinstance(spec, MaskSpec) else "int32" if isinstance(spec, CategorySpec) else "float32"
            fields[f"observations/{name}"] = Field(ArraySpec(spec.shape, dtype), "boundaries")
        fields["first"] = Field(ArraySpec((), "bool"), "boundaries")
        fields["actions"] = Field(actions, "steps")
        fields["rewards"] = Field(ArraySpec(()), "steps")
        fields["terminated"] = Field(ArraySpec((), "bool"), "steps")
        fields["valid"] = Field(ArraySpec((), "bool"), "steps")
        for name, array in self.behaviour.items():
            fields[f"mu/{name}"] = Field(array, "steps")
        fields["last_action"] = Field(actions, "once")
        fields["last_reward"] = Field(ArraySpec(()), "once")
        for name, array in self.core_state.items():
            fields[f"core_state/{name}"] = Field(array, "once")
        return fields

    @cached_property
    def frames(self) -> dict[str, FramesSpec]:
        """Image observations by name; each unroll keeps `num_frames(name)` single frames, compressed."""
        return {name: spec for name, spec in self.environment.observations.items() if isinstance(spec, FramesSpec)}

    def num_frames(self, name: str) -> int:
        """Return the frames per unroll of image `name`: the stack-1 frames before row 0, then those of rows 0..T."""
        return self.frames[name].stack - 1 + self.unroll_length + 1

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one unroll's array `name`, time axis first."""
        item = self.fields[name]
        time = {"steps": (self.unroll_length,), "boundaries": (self.unroll_length + 1,), "once": ()}[item.rows]
        return time + item.array.shape

    @property
    def num_fixed_bytes(self) -> int:
        """Bytes of one unroll without its compressed frames."""
        rows = {"steps": self.unroll_length, "boundaries": self.unroll_length + 1, "once": 1}
        fields = sum(rows[item.rows] * item.array.num_bytes for item in self.fields.values())
        return fields + HEADER_DTYPE.itemsize


@dataclass(frozen=True)
class PackedFrames:
    """Compressed frames of N unrolls in one contiguous buffer.

    Args:
        payload: uint8 [num_bytes].
        starts: int64 [N], first byte of each unroll.
        lengths: int64 [N], number of bytes of each unroll. Bytes between unrolls are padding.
    """

    payload: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the bytes of one unroll."""
        start = int(self.starts[index])
        return self.payload[start : start + int(self.lengths[index])]


@dataclass(frozen=True)
class Unrolls:
    """N unrolls of one spec. Immutable once shipped: receivers own the arrays, but must not write into them.

    Args:
        headers: HEADER_DTYPE [N].
        fields: arrays by name, `[N, *spec.shape(name)]`.
        frames: compressed frames by image name.
    """

    headers: np.ndarray
    fields: dict[str, np.ndarray]
    frames: dict[str, PackedFrames] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return N."""
        return len(self.headers)

    def group(self, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
        """Yield (short name, array) of the fields in a group, e.g. `mu`."""
        for name, array in self.fields.items():
            if name.startswith(prefix + "/"):
                yield name[len(prefix) + 1 :], array

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays and compressed frames, as sent."""
        arrays = sum(array.nbytes for array in self.fields.values()) + self.headers.nbytes
        return arrays + sum(packed.payload.nbytes for packed in self.frames.values())


def find_defects(spec: UnrollSpec, unrolls: Unrolls) -> str | None:
    """Return why `unrolls` does not fit `spec` in names, shapes or dtypes; None if it fits. A shard's first check.

    The shard checks values (finiteness) row by row, so that one bad unroll does not reject the whole message.
    """
    num_unrolls = len(unrolls)
    if unrolls.headers.dtype != HEADER_DTYPE:
        return f"headers must have dtype HEADER_DTYPE, got {unrolls.headers.dtype}"
    if set(unrolls.fields) != set(spec.fields):
        return f"fields must be {sorted(spec.fields)}, got {sorted(unrolls.fields)}"
    if set(unrolls.frames) != set(spec.frames):
        return f"frames must be {sorted(spec.frames)}, got {sorted(unrolls.frames)}"
    for name, array in unrolls.fields.items():
        if array.shape != (num_unrolls, *spec.shape(name)):
            return f"{name} must have shape {(num_unrolls, *spec.shape(name))}, got {array.shape}"
        if array.dtype != np.dtype(spec.fields[name].array.dtype):
            return f"{name} must have dtype {spec.fields[name].array.dtype}, got {array.dtype}"
    for name, packed in unrolls.frames.items():
        if packed.payload.dtype != np.uint8 or packed.payload.ndim != 1:
            return f"frames {name} must be uint8 [num_bytes], got {packed.payload.dtype} {packed.payload.shape}"
        if packed.starts.shape != (num_unrolls,) or packed.lengths.shape != (num_unrolls,):
            shapes = f"{packed.starts.shape} and {packed.lengths.shape}"
            return f"frames {name} must have {num_unrolls} entries, got {shapes}"
        ends = packed.starts + packed.lengths
        if num_unrolls and (packed.starts.min() < 0 or packed.lengths.min() < 0 or ends.max() > packed.payload.size):
            return f"frames {name} point outside their payload of {packed.payload.size} bytes"
    return None
