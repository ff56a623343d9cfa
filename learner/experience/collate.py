"""Collation: samples become time-major batches; frames are decoded here, off the training thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from laser.batch import FOREIGN_REPLAY, ONLINE, OWN_REPLAY, Batch
from laser.frames import decompress_frames
from laser.ports import ORIGIN_DTYPE, Sample
from laser.unroll import UnrollSpec
from learner.experience.frame_cuts import cut_frames, cut_stacks
from learner.experience.mixing import Mix


@dataclass(frozen=True)
class Correction:
    """The importance weights that correct losses for non-uniform draws: (1 / (N P))^exponent.

    Args:
        exponent: 0: no correction, 1: full correction.
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
    """Return a batch for each mix: its samples side by side along B, fresh sequences first.

    Several small batches of single steps at once take less than half the time of one after the other.

    Image observations of unrolls and episode streams stay single frames, uint8 [B, stack - 1 + T + 1, *frame_shape];
    the update stacks them on its device (`laser.ops.frame_stacks`). The two rows of n-step windows share no frames, so
    they are stacked here: uint8 [2, B, channels, height, width], channels-last in memory.

    Args:
        mixes: the samples of each batch; several mixes must have been drawn together and hold no images.
        spec: layout of the unrolls.
        member: the learner's member; separates own from foreign experience.
        discount: gamma.
        newest_version: the learner's parameter version, for `policy_lag`.
        correction: for non-uniform draws.

    Returns:
        a batch on the CPU for each mix.
    """
    num_batches = len(mixes)
    mix = mixes[0] if num_batches == 1 else Mix(None, mixes[0].drawn)
    parts, num_online = mix.parts, mix.num_online
    assert parts, "mixes that are collated together were drawn together"
    # From here on arrays are [batches, T, B, ...], or [batches, B, ...] for fields that a sequence has once. They are
    # contiguous: compiled code depends on strides, which must be those of `example_batch`.
    origins = [_in_turns(origins_of(part, spec.unroll_length), num_batches) for part in parts]
    member_of, task_of, version_of = (
        _joined([part[name] for part in origins], 2) for name in ("member", "task", "parameter_version")
    )
    own = member_of == member
    source = np.where(own, np.int8(OWN_REPLAY), np.int8(FOREIGN_REPLAY))
    source[:, :, :num_online] = ONLINE
    fields = {name: _side_by_side(parts, name, spec, num_batches) for name in spec.fields}
    discounts = (1.0 - fields["terminated"].astype(np.float32)) * np.float32(discount)
    if mix.replayed is not None and mix.replayed.discounts is not None:  # n-step windows have their own discounts
        discounts[:, :, num_online:] = _in_turns(mix.replayed.discounts, num_batches)
    arrays = {
        "first": fields["first"],
        "actions": fields["actions"],
        "rewards": fields["rewards"],
        "discounts": discounts,
        "valid": fields["valid"],
        "last_action": fields["last_action"],
        "last_reward": fields["last_reward"],
        "source": source,
        "task": task_of.astype(np.int64),
        "policy_lag": np.where(own, newest_version - version_of, 0).astype(np.float32),
        "importance_weights": _importance_weights(mix, correction, num_batches),
    }
    by_name = {
        kind: {name[len(kind) + 1 :]: value for name, value in fields.items() if name.startswith(f"{kind}/")}
        for kind in ("observations", "mu", "core_state")
    }
    by_name["columns"] = _columns(mix, spec.unroll_length, num_batches)
    cut = {name: torch.from_numpy(array).unbind() for name, array in arrays.items()}
    cut_by_name = {
        kind: {name: torch.from_numpy(array).unbind() for name, array in named.items()}
        for kind, named in by_name.items()
    }
    cut_by_name["observations"] |= {name: (_decode(parts, spec, name),) for name in spec.frames}
    batches = []
    for number in range(num_batches):
        values: dict[str, Any] = {name: pieces[number] for name, pieces in cut.items()}
        for kind, named in cut_by_name.items():
            values[kind] = {name: pieces[number] for name, pieces in named.items()}
        batches.append(Batch(**values))
    return batches


def example_batch(
    spec: UnrollSpec, batch_size: int, columns: Sequence[str], view: Literal["unrolls", "steps"] = "unrolls"
) -> Batch:
    """Return a batch of the right shapes and harmless numbers, for compilation and warm-up.

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
    """Return the member, task and parameter version that each row came from, ORIGIN_DTYPE [N, T]."""
    if part.origins is not None:
        return part.origins
    origins = np.empty((len(part.unrolls), unroll_length), ORIGIN_DTYPE)
    for name in ORIGIN_DTYPE.names or ():
        origins[name] = part.unrolls.headers[name][:, None]
    return origins


def _in_turns(array: np.ndarray, num_batches: int, *, has_time: bool = True) -> np.ndarray:
    """Return a view [batches, T, N / batches, ...] of items [N, T, ...], or without T; batch k has items k, k + n..."""
    turns = array.reshape(-1, num_batches, *array.shape[1:])
    first, others = ((1, 2, 0), range(3, turns.ndim)) if has_time else ((1, 0), range(2, turns.ndim))
    return turns.transpose(*first, *others)


def _side_by_side(parts: list[Sample], name: str, spec: UnrollSpec, num_batches: int) -> np.ndarray:
    item = spec.fields[name]
    has_time = item.rows != "once"
    columns = []
    for part in parts:
        array = part.unrolls.fields.get(name)
        if array is None:  # episode streams have no recurrent states yet: `StreamStates.join` adds them at the update
            array = np.zeros((len(part.unrolls), *item.array.shape), item.array.dtype)
        columns.append(_in_turns(array, num_batches, has_time=has_time))
    return _joined(columns, 2 if has_time else 1)


def _joined(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """Return arrays concatenated along an axis, contiguous even if the inputs are not."""
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    return np.concatenate(arrays, axis=axis, out=np.empty(shape, arrays[0].dtype))


def _decode(parts: list[Sample], spec: UnrollSpec, name: str) -> Tensor:
    num_columns, item = sum(len(part.unrolls) for part in parts), spec.frames[name]
    if parts[-1].discounts is not None:  # n-step windows, which are never mixed with unrolls
        (part,) = parts
        assert part.frame_windows is not None, "a replay with images sends them with every step"
        stacks = np.empty((2, num_columns, item.stack, *item.frame_shape), np.uint8)
        cut_stacks(part.frame_windows, name, item.stack, item.padding, stacks)
        # [2, B, stack, height, width, ...] to channels-last memory for convolutions; here, off the training thread.
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
    # float32 [batches, B], 1 for fresh sequences.
    num_replayed = 0 if mix.replayed is None else len(mix.replayed.unrolls) // num_batches
    weights = np.ones((num_batches, mix.num_online + num_replayed), np.float32)
    if mix.replayed is not None and correction.exponent:
        probabilities = _in_turns(mix.replayed.probabilities, num_batches, has_time=False)
        # Relative to the largest weight, the correction never enlarges an update.
        largest = probabilities.min(axis=1, keepdims=True) if correction.relative else 1.0 / mix.replayed.num_stored
        weights[:, mix.num_online :] = (largest / probabilities) ** correction.exponent
    return weights


def _columns(mix: Mix, num_rows: int, num_batches: int) -> dict[str, np.ndarray]:
    # float32 [batches, T, B] by name, 0 for fresh sequences.
    if mix.replayed is None:
        return {}
    fresh = np.zeros((num_batches, num_rows, mix.num_online), np.float32)
    replayed = {name: _in_turns(array, num_batches) for name, array in mix.replayed.columns.items()}
    return {name: _joined([fresh, array], 2) for name, array in replayed.items()}
