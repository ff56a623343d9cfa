"""Whole episodes, put together from the unrolls of a saved replay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from laser.frames import decompress_frames
from laser.logs.episodes import LoggedEpisode
from laser.ops.frame_stacks import stack_frames
from laser.specs import FramesSpec
from laser.unroll import PackedFrames, Unrolls, UnrollSpec
from replay_server.saving.contents import Contents

_STREAM = ("run", "actor", "incarnation", "environment")
_MU, _OBSERVATIONS = "mu/", "observations/"


def whole_episodes(spec: UnrollSpec, saved: Contents) -> Iterator[LoggedEpisode]:
    """Yield the episodes whose every row is stored, stream by stream; others have lost their first rows or go on.

    Args:
        spec: layout of the unrolls.
        saved: contents of one shard; all unrolls of an environment are in the same one.
    """
    headers = saved.headers
    order = np.lexsort((headers["sequence"], *(headers[name] for name in reversed(_STREAM))))
    if not len(order):
        return
    sorted_headers = headers[order]
    goes_on = np.ones(len(order) - 1, bool)
    for name in _STREAM:
        goes_on &= sorted_headers[name][1:] == sorted_headers[name][:-1]
    goes_on &= sorted_headers["sequence"][1:] == sorted_headers["sequence"][:-1] + 1
    for stretch in np.split(order, np.flatnonzero(~goes_on) + 1):
        yield from _episodes_of(spec, saved, stretch)


def _episodes_of(spec: UnrollSpec, saved: Contents, unrolls: np.ndarray) -> Iterator[LoggedEpisode]:
    """Yield the whole episodes of unrolls that follow each other."""
    length = spec.unroll_length
    first = saved.fields["first"][unrolls][:, :length].reshape(-1)
    ends = np.flatnonzero(~saved.fields["valid"][unrolls].reshape(-1))
    for begin in np.flatnonzero(first):
        at = np.searchsorted(ends, begin)
        if at == len(ends):
            return  # the last episode goes on
        end = int(ends[at])
        some = unrolls[begin // length : end // length + 1]
        skipped = begin // length * length
        if end > begin:
            yield _episode(spec, _gathered(saved, some), slice(begin - skipped, end - skipped + 1))


def _episode(spec: UnrollSpec, unrolls: Unrolls, rows: slice) -> LoggedEpisode:
    """Return the episode in these rows of unrolls that follow each other; the last row is the final observation."""
    length = spec.unroll_length

    def of_rows(values: np.ndarray) -> np.ndarray:
        """Join [N, T or T+1, ...] along time, without the rows that the next unroll repeats, and cut."""
        joined: np.ndarray = values[:, :length].reshape(-1, *values.shape[2:])[rows]
        return joined

    steps = slice(0, -1)
    observations = {
        name: of_rows(
            _stacks(unrolls, name, item) if isinstance(item, FramesSpec) else unrolls.fields[_OBSERVATIONS + name]
        )
        for name, item in spec.environment.observations.items()
    }
    mu = {
        name.removeprefix(_MU): of_rows(value)[steps] for name, value in unrolls.fields.items() if name.startswith(_MU)
    }
    versions = np.repeat(unrolls.headers["parameter_version"][:, None], length, axis=1)
    return LoggedEpisode(
        observations,
        of_rows(unrolls.fields["actions"])[steps],
        of_rows(unrolls.fields["rewards"])[steps],
        bool(of_rows(unrolls.fields["terminated"])[-2]),
        mu,
        of_rows(versions)[steps],
        int(unrolls.headers["member"][0]),
    )


def _gathered(saved: Contents, some: np.ndarray) -> Unrolls:
    frames = {
        name: PackedFrames(packed.payload, packed.starts[some], packed.lengths[some])
        for name, packed in saved.frames.items()
    }
    return Unrolls(saved.headers[some], {name: value[some] for name, value in saved.fields.items()}, frames)


def _stacks(unrolls: Unrolls, name: str, spec: FramesSpec) -> np.ndarray:
    """Return observations uint8 [N, T+1, stack, *frame_shape]."""
    first = unrolls.fields["first"]
    num_rows = first.shape[1]
    frames = np.empty((len(first), spec.stack - 1 + num_rows, *spec.frame_shape), np.uint8)
    decompress_frames(unrolls.frames[name], frames)
    if spec.stack == 1:
        return frames[:, :, None]
    stacked = stack_frames(torch.from_numpy(frames), torch.from_numpy(first.T.copy()), spec.stack, spec.padding)
    channels = stacked.transpose(0, 1).unflatten(2, (spec.stack, -1))  # [N, T+1, stack, colours, H, W]
    pictures = channels.movedim(3, -1).numpy()
    return np.ascontiguousarray(pictures.reshape(*pictures.shape[:3], *spec.frame_shape))
