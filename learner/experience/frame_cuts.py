"""Frame cutting: decodes whole compressed unrolls and takes the frames of items that begin inside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from laser.frames import decompress_frames
from laser.ports import FrameWindows
from laser.unroll import PackedFrames

Padding = Literal["zeros", "repeat"]


def cut_frames(windows: FrameWindows, name: str, stack: int, padding: Padding, out: np.ndarray) -> None:
    """Write the frames that an unroll of these rows would hold: the stack of row 0, then a frame per row.

    Stacks never mix episodes: frames from before the first row of row 0's episode are padded as its environment pads
    them. `laser.ops.frame_stacks` stacks later rows by the same rule.

    Args:
        windows: of N items of R consecutive rows.
        name: of the image observation.
        stack: frames per observation.
        padding: what a stack holds before an episode's first frame.
        out: uint8 [N, stack - 1 + R, *frame_shape], written to.
    """
    begins = _begins(windows, stack)
    for items, places, rows, decoded in _decoded(windows, name, stack, out.shape[2:]):
        out[items, stack - 1 + places] = decoded[stack - 1 + rows]
        at_0 = places == 0
        if at_0.any():
            items = items[at_0]
            out[items, :stack] = _stacks(decoded, rows[at_0], begins[items, 0], stack, padding)


def cut_stacks(windows: FrameWindows, name: str, stack: int, padding: Padding, out: np.ndarray) -> None:
    """Write the whole stack of each row; the rows of an item need not be consecutive.

    Args:
        windows: of N items of R rows.
        name: of the image observation.
        stack: frames per observation.
        padding: what a stack holds before an episode's first frame.
        out: uint8 [R, N, stack, *frame_shape], written to.
    """
    begins = _begins(windows, stack)
    for items, places, rows, decoded in _decoded(windows, name, stack, out.shape[3:]):
        out[places, items] = _stacks(decoded, rows, begins[items, places], stack, padding)


def _decoded(
    windows: FrameWindows, name: str, stack: int, frame_shape: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Decode each unroll once; yield (items, places among their rows, rows) of all rows in it, and its frames.

    The frame of row t is at stack - 1 + t. The frames' memory is reused for the next unroll.
    """
    packed = windows.frames[name]
    order = np.argsort(windows.unrolls, axis=None, kind="stable")
    items, places = np.divmod(order, windows.unrolls.shape[1])
    rows = windows.rows.reshape(-1)[order]
    ends = np.cumsum(np.bincount(windows.unrolls.reshape(-1), minlength=len(windows.first)))
    decoded = np.empty((1, stack - 1 + windows.first.shape[1], *frame_shape), np.uint8)
    start = 0
    for unroll, end in enumerate(ends.tolist()):
        here = slice(unroll, unroll + 1)
        decompress_frames(PackedFrames(packed.payload, packed.starts[here], packed.lengths[here]), decoded)
        yield items[start:end], places[start:end], rows[start:end], decoded[0]
        start = end


def _begins(windows: FrameWindows, stack: int) -> np.ndarray:
    """Return the row where each row's episode began, [N, R]; 1 - stack if it began before the unroll."""
    row_numbers = np.arange(windows.first.shape[1])
    begun = np.where(windows.first & (row_numbers > 0), row_numbers, 1 - stack)
    return np.asarray(np.maximum.accumulate(begun, axis=1)[windows.unrolls, windows.rows])


def _stacks(decoded: np.ndarray, rows: np.ndarray, begins: np.ndarray, stack: int, padding: Padding) -> np.ndarray:
    """Return the stacks [n, stack, *frame_shape] of `rows` [n], whose episodes began at `begins` [n]."""
    wanted = rows[:, None] + np.arange(1 - stack, 1)
    stacks: np.ndarray = decoded[stack - 1 + np.maximum(wanted, begins[:, None])]
    if padding == "zeros":
        stacks[wanted < begins[:, None]] = 0
    return stacks
