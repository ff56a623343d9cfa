"""Samples in, one time-major batch out; frames are decoded here, off the training thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from laser.batch import FOREIGN_REPLAY, ONLINE, OWN_REPLAY, WITHOUT_TIME, Batch
from laser.frames import decompress_frames
from laser.ports import ORIGIN_DTYPE, Sample
from laser.unroll import UnrollSpec
from learner.frame_cuts import cut_frames, cut_stacks
from learner.mixing import Mix


@dataclass(frozen=True)
class Correction:
    """How losses correct for uneven draws: weights (1 / (N P))^exponent.

    Args:
        exponent: 0: not at all, 1: fully.
        relative: divide by the largest weight of the batch.
    """

    exponent: float = 0.0
    relative: bool = True


def collate(
    mixes: Sequence[Mix],
    spec: UnrollSpec,
    member: int,
    discount: float,
    newest_version: int,
    correction: Correction = Correction(),
) -> list[Batch]:
    """Put the samples of a mix side by side as columns, fresh ones first; or of several that were drawn together.

    Several small batches of single steps at once take less than half the time of one after the other.

    Image observations of unrolls and streams stay single frames here, uint8 [B, stack - 1 + T + 1, *frame_shape]; the
    train step stacks them on its device (`laser.ops.frame_stacks`). The two rows of n-step windows share no frames, and
    come stacked: uint8 [2, B, channels, height, width], channels-last in memory.

    Args:
        mixes: the samples of each batch; if there is more than one, all that were drawn together, without images.
        spec: their layout.
        member: whose learner this is; tells own from foreign experience.
        discount: gamma.
        newest_version: the learner's parameter version, for `policy_lag`.
        correction: of uneven draws.

    Returns:
        a batch on the CPU for each mix.
    """
    num_batches = len(mixes)
    mix = mixes[0] if num_batches == 1 else Mix(None, mixes[0].drawn)
    parts = mix.parts
    # [T, B]; strides are part of what is compiled for, so they are those of `example_batch`.
    origins = np.ascontiguousarray(np.concatenate([origins_of(part, spec.unroll_length) for part in parts]).T)
    own = origins["member"] == member
    source = np.where(own, OWN_REPLAY, FOREIGN_REPLAY).astype(np.int8)
    fields = {name: _side_by_side(parts, name, spec) for name in spec.fields}
    discounts = (1.0 - fields["terminated"].astype(np.float32)) * np.float32(discount)
    source[:, : mix.num_online] = ONLINE
    if mix.replayed is not None and mix.replayed.discounts is not None:  # windows know how many steps they fold
        discounts[:, mix.num_online :] = mix.replayed.discounts.T
    observations = {name[13:]: value for name, value in fields.items() if name.startswith("observations/")}
    lag = np.where(own, newest_version - origins["parameter_version"], 0).astype(np.float32)
    batch = Batch(
        observations=_tensors(observations) | {name: _decode(parts, spec, name) for name in spec.frames},
        first=torch.from_numpy(fields["first"]),
        actions=torch.from_numpy(fields["actions"]),
        rewards=torch.from_numpy(fields["rewards"]),
        discounts=torch.from_numpy(discounts),
        valid=torch.from_numpy(fields["valid"]),
        mu=_tensors({name[3:]: value for name, value in fields.items() if name.startswith("mu/")}),
        last_action=torch.from_numpy(fields["last_action"]),
        last_reward=torch.from_numpy(fields["last_reward"]),
        source=torch.from_numpy(source),
        task=torch.from_numpy(origins["task"].astype(np.int64)),
        policy_lag=torch.from_numpy(lag),
        importance_weights=torch.from_numpy(_importance_weights(mix, correction, num_batches)),
        core_state=_tensors({name[11:]: value for name, value in fields.items() if name.startswith("core_state/")}),
        columns=_columns(mix, spec.unroll_length),
    )
    return [batch] if num_batches == 1 else _cut(batch, num_batches)


def example_batch(
    spec: UnrollSpec, batch_size: int, columns: Sequence[str], view: Literal["unrolls", "steps"] = "unrolls"
) -> Batch:
    """Return a batch of the right shapes and harmless numbers, to compile and warm up with.

    Args:
        spec: layout of the items.
        batch_size: B.
        columns: names of the replay's columns.
        view: `AlgorithmConfig.view`.
    """
    num_rows, shape = spec.unroll_length, (spec.unroll_length, batch_size)

    def zeros(name: str) -> Tensor:
        item = spec.fields[name]
        rows = {"steps": (num_rows,), "boundaries": (num_rows + 1,), "once": ()}[item.rows]
        return torch.from_numpy(np.zeros((*rows, batch_size, *item.array.shape), item.array.dtype))

    observations = {name[13:]: zeros(name) for name in spec.fields if name.startswith("observations/")}
    for name, item in spec.frames.items():
        if view == "steps":
            seen = torch.zeros(num_rows + 1, batch_size, *item.frame_shape[:2], item.channels, dtype=torch.uint8)
            observations[name] = seen.movedim(-1, 2)
        else:
            observations[name] = torch.zeros(batch_size, spec.num_frames(name), *item.frame_shape, dtype=torch.uint8)
    return Batch(
        observations=observations,
        first=zeros("first"),
        actions=zeros("actions"),
        rewards=zeros("rewards"),
        discounts=torch.ones(shape),
        valid=torch.ones(shape, dtype=torch.bool),
        mu={name[3:]: zeros(name) + (name == "mu/std") for name in spec.fields if name.startswith("mu/")},
        last_action=zeros("last_action"),
        last_reward=zeros("last_reward"),
        source=torch.zeros(shape, dtype=torch.int8),
        task=torch.zeros(shape, dtype=torch.int64),
        policy_lag=torch.zeros(shape),
        importance_weights=torch.ones(batch_size),
        core_state={name[11:]: zeros(name) for name in spec.fields if name.startswith("core_state/")},
        columns={name: torch.zeros(shape) for name in columns},
    )


def origins_of(part: Sample, unroll_length: int) -> np.ndarray:
    """Return who made each row, ORIGIN_DTYPE [N, T]."""
    if part.origins is not None:
        return part.origins
    origins = np.empty((len(part.unrolls), unroll_length), ORIGIN_DTYPE)
    for name in ORIGIN_DTYPE.names or ():
        origins[name] = part.unrolls.headers[name][:, None]
    return origins


def _side_by_side(parts: list[Sample], name: str, spec: UnrollSpec) -> np.ndarray:
    item = spec.fields[name]
    if item.rows == "once":
        # Streams come without recurrent states, which join when the batch is trained on.
        arrays = [part.unrolls.fields.get(name) for part in parts]
        shapes = [(len(part.unrolls), *item.array.shape) for part in parts]
        dtype = item.array.dtype
        return np.concatenate(
            [np.zeros(shape, dtype) if array is None else array for array, shape in zip(arrays, shapes, strict=True)]
        )
    columns = [part.unrolls.fields[name] for part in parts]
    num_columns, num_rows = sum(map(len, columns)), columns[0].shape[1]
    out = np.empty((num_rows, num_columns, *columns[0].shape[2:]), columns[0].dtype)
    start = 0
    for array in columns:
        out[:, start : start + len(array)] = array.swapaxes(0, 1)
        start += len(array)
    return out


def _decode(parts: list[Sample], spec: UnrollSpec, name: str) -> Tensor:
    num_columns, item = sum(len(part.unrolls) for part in parts), spec.frames[name]
    if parts[-1].discounts is not None:  # n-step windows, which no batch mixes with others
        (part,) = parts
        assert part.frame_windows is not None, "a replay with images sends them with every step"
        stacks = np.empty((2, num_columns, item.stack, *item.frame_shape), np.uint8)
        cut_stacks(part.frame_windows, name, item.stack, item.padding, stacks)
        # [2, B, stack, height, width, ...] to channels-last memory, as convolutions want it: here, off their thread.
        seen = torch.from_numpy(stacks).movedim(2, 4).contiguous()
        return seen.view(2, num_columns, *item.frame_shape[:2], item.channels).movedim(-1, 2)
    out = np.empty((num_columns, spec.num_frames(name), *item.frame_shape), np.uint8)
    start = 0
    for part in parts:
        here = out[start : start + len(part.unrolls)]
        if part.frame_windows is None:
            decompress_frames(part.unrolls.frames[name], here)
        else:
            cut_frames(part.frame_windows, name, item.stack, item.padding, here)
        start += len(part.unrolls)
    return torch.from_numpy(out)


def _importance_weights(mix: Mix, correction: Correction, num_batches: int) -> np.ndarray:
    # float32 [B], 1 for fresh columns; of the items of several batches, in turns.
    weights = np.ones(mix.num_online, np.float32)
    if mix.replayed is None:
        return weights
    if not correction.exponent:
        return np.ones(mix.num_online + len(mix.replayed.unrolls), np.float32)
    probabilities = mix.replayed.probabilities.reshape(-1, num_batches)
    # Relative to the largest no step becomes longer than without.
    largest = probabilities.min(axis=0) if correction.relative else 1.0 / mix.replayed.num_stored
    replayed = (largest / probabilities) ** correction.exponent
    return np.concatenate([weights, replayed.reshape(-1).astype(np.float32)])


def _columns(mix: Mix, num_rows: int) -> dict[str, Tensor]:
    if mix.replayed is None:
        return {}
    fresh = np.zeros((num_rows, mix.num_online), np.float32)
    return {
        name: torch.from_numpy(np.concatenate([fresh, array.swapaxes(0, 1)], axis=1))
        for name, array in mix.replayed.columns.items()
    }


def _cut(batch: Batch, num_batches: int) -> list[Batch]:
    """Return batches whose items take turns, each contiguous."""

    def cut(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            pieces = {key: cut(name, item) for key, item in value.items()}
            return [{key: pieces[key][number] for key in pieces} for number in range(num_batches)]
        axis = 0 if name in WITHOUT_TIME else 1
        return value.unflatten(axis, (-1, num_batches)).movedim(axis + 1, 0).contiguous().unbind()

    names = [item.name for item in dataclasses.fields(batch)]
    pieces = {name: cut(name, getattr(batch, name)) for name in names}
    return [Batch(**{name: pieces[name][number] for name in names}) for number in range(num_batches)]


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in arrays.items()}
