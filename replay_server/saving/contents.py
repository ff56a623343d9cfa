"""Contents of a shard: stored unrolls, apart from everything that refers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from laser.unroll import PackedFrames


@dataclass(frozen=True)
class Contents:
    """Stored unrolls.

    Args:
        positions: place of each in the order of insertion, int64 [N].
        headers: HEADER_DTYPE [N].
        fields: uncompressed fields by name, [N, ...].
        frames: compressed frames by image name.
    """

    positions: np.ndarray
    headers: np.ndarray
    fields: Mapping[str, np.ndarray]
    frames: Mapping[str, PackedFrames]

    def __len__(self) -> int:
        """Return the number of unrolls."""
        return len(self.positions)

    def where(self, chosen: np.ndarray) -> Contents:
        """Return some of the unrolls; `chosen` is bool [N]."""
        return join_contents([self], self.positions[chosen])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays by name."""
        arrays = {"positions": self.positions, "headers": self.headers}
        arrays |= {f"fields/{name}": value for name, value in self.fields.items()}
        for name, packed in self.frames.items():
            arrays |= {f"payload/{name}": packed.payload, f"starts/{name}": packed.starts}
            arrays[f"lengths/{name}"] = packed.lengths
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray]) -> Contents:
        """Return the contents of `to_arrays`."""

        def named(kind: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(kind): value for name, value in arrays.items() if name.startswith(kind)}

        starts, lengths = named("starts/"), named("lengths/")
        frames = {name: PackedFrames(value, starts[name], lengths[name]) for name, value in named("payload/").items()}
        return Contents(arrays["positions"], arrays["headers"], named("fields/"), frames)


def join_contents(parts: Sequence[Contents], positions: np.ndarray) -> Contents:
    """Return the unrolls at these places in the order of insertion, in the order given.

    Args:
        parts: contents that hold each of them once.
        positions: int64 [N].

    Raises:
        ValueError: an unroll is in none of the parts.
    """
    stored = np.concatenate([part.positions for part in parts])
    order = np.argsort(stored, kind="stable")
    found = np.searchsorted(stored[order], positions)
    if len(positions) and (found.max() >= len(stored) or (stored[order][found] != positions).any()):
        raise ValueError("an unroll is in none of its segments")
    rows = order[found]
    fields = {name: np.concatenate([part.fields[name] for part in parts])[rows] for name in parts[0].fields}
    frames = {name: join_frames([part.frames[name] for part in parts]) for name in parts[0].frames}
    chosen = {name: _chosen(packed, rows) for name, packed in frames.items()}
    return Contents(positions, np.concatenate([part.headers for part in parts])[rows], fields, chosen)


def _chosen(packed: PackedFrames, rows: np.ndarray) -> PackedFrames:
    """Return the frames of some unrolls, without the bytes of the others."""
    lengths = packed.lengths[rows]
    starts = np.cumsum(lengths) - lengths
    payload = np.empty(int(lengths.sum()), np.uint8)
    for row, start, length in zip(rows.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        payload[start : start + length] = packed[row]
    return PackedFrames(payload, starts, lengths)


def join_frames(parts: Sequence[PackedFrames]) -> PackedFrames:
    """Return the frames of all parts, one part after the other."""
    begins = np.cumsum([0, *(len(part.payload) for part in parts[:-1])])
    return PackedFrames(
        np.concatenate([part.payload for part in parts]),
        np.concatenate([part.starts + begin for part, begin in zip(parts, begins, strict=True)]),
        np.concatenate([part.lengths for part in parts]),
    )
