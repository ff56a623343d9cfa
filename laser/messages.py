"""Slicing and concatenation of unrolls and samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from laser.ports import FrameWindows, Sample
from laser.unroll import PackedFrames, Unrolls

# A slice keeps views and costs nothing; an index array copies.
Selection = slice | np.ndarray


def take_unrolls(unrolls: Unrolls, chosen: Selection) -> Unrolls:
    """Return the chosen unrolls; compressed frames stay where they are, in a shared payload."""
    return Unrolls(
        unrolls.headers[chosen],
        {name: array[chosen] for name, array in unrolls.fields.items()},
        {
            name: PackedFrames(packed.payload, packed.starts[chosen], packed.lengths[chosen])
            for name, packed in unrolls.frames.items()
        },
    )


def take_sample(sample: Sample, chosen: slice) -> Sample:
    """Return the chosen items of a sample; numbers about the whole replay stay the same."""

    def take(array: np.ndarray | None) -> np.ndarray | None:
        return None if array is None else array[chosen]

    windows = sample.frame_windows
    return Sample(
        take_unrolls(sample.unrolls, chosen),
        sample.keys[chosen],
        sample.probabilities[chosen],
        sample.num_stored,
        {name: array[chosen] for name, array in sample.columns.items()},
        take(sample.discounts),
        windows and FrameWindows(windows.frames, windows.first, windows.unrolls[chosen], windows.rows[chosen]),
        take(sample.origins),
        take(sample.streams),
        sample.statistics,
        take(sample.ages),
        take(sample.num_draws),
        sample.num_stored_log,
    )


def concatenate_unrolls(parts: Sequence[Unrolls]) -> Unrolls:
    """Return all unrolls of the parts, in order."""
    if len(parts) == 1:
        return parts[0]
    return Unrolls(
        np.concatenate([part.headers for part in parts]),
        {name: np.concatenate([part.fields[name] for part in parts]) for name in parts[0].fields},
        {name: _concatenate_frames([part.frames[name] for part in parts]) for name in parts[0].frames},
    )


def concatenate_samples(parts: Sequence[Sample], probabilities: np.ndarray, num_stored: int) -> Sample:
    """Return all items of the parts, in order, with the given global probabilities and count."""
    windows = [part.frame_windows for part in parts if part.frame_windows is not None]
    discounts = [part.discounts for part in parts if part.discounts is not None]
    origins = [part.origins for part in parts if part.origins is not None]
    streams = [part.streams for part in parts if part.streams is not None]
    ages = [part.ages for part in parts if part.ages is not None]
    num_draws = [part.num_draws for part in parts if part.num_draws is not None]
    return Sample(
        concatenate_unrolls([part.unrolls for part in parts]),
        np.concatenate([part.keys for part in parts]),
        probabilities,
        num_stored,
        {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
        np.concatenate(discounts) if discounts else None,
        _concatenate_windows(windows) if windows else None,
        np.concatenate(origins) if origins else None,
        np.concatenate(streams) if streams else None,
        {name: np.sum([part.statistics[name] for part in parts], axis=0) for name in parts[0].statistics},
        np.concatenate(ages) if ages else None,
        np.concatenate(num_draws) if num_draws else None,
    )


def _concatenate_frames(parts: Sequence[PackedFrames]) -> PackedFrames:
    sizes = np.cumsum([0, *(part.payload.size for part in parts)])
    return PackedFrames(
        np.concatenate([part.payload for part in parts]),
        np.concatenate([part.starts + size for part, size in zip(parts, sizes, strict=False)]),
        np.concatenate([part.lengths for part in parts]),
    )


def _concatenate_windows(parts: Sequence[FrameWindows]) -> FrameWindows:
    counts = np.cumsum([0, *(len(part.first) for part in parts)])
    return FrameWindows(
        {name: _concatenate_frames([part.frames[name] for part in parts]) for name in parts[0].frames},
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.unrolls + count for part, count in zip(parts, counts, strict=False)]),
        np.concatenate([part.rows for part in parts]),
    )
