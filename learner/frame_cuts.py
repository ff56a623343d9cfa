"""Cutting frames at rows: from whole compressed unrolls to the single frames of items that begin amid them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from laser.frames import decompress_frames
from laser.ports import FrameWindows
from laser.unroll import PackedFrames


def cut_frames(
    windows: FrameWindows, name: str, stack: int, padding: Literal["zeros", "repeat"], out: np.ndarray
) -> None:
    """Write what an actor's own unroll of these rows would hold: the stack of row 0, then a frame per row.

    Each unroll is decoded once. Stacks never mix episodes: frames from before the first row of row 0's episode are
    padded as its environment pads them. Later rows are stacked by `laser.ops.frame_stacks`, which does the same.

    Args:
        windows: of N items of R rows.
        name: which image.
        stack: frames per observation.
        padding: what a stack holds before an episode's first frame.
        out: uint8 [N, stack - 1 + R, *frame_shape], written to.
    """
    packed, first = windows.frames[name], windows.first
    num_rows = first.shape[1]
    row_numbers = np.arange(num_rows)
    # Row at which the episode of each row began; the oldest kept frame where that is not inside its unroll.
    begins = np.maximum.accumulate(np.where(first & (row_numbers > 0), row_numbers, 1 - stack), axis=1)
    unrolls, rows = windows.unrolls, windows.rows
    begins_of_row_0 = begins[unrolls[:, 0], rows[:, 0]]
    order = np.argsort(unrolls, axis=None, kind="stable")
    items, places = np.divmod(order, unrolls.shape[1])
    ends = np.cumsum(np.bincount(unrolls.reshape(-1), minlength=len(first)))
    decoded = np.empty((1, stack - 1 + num_rows, *out.shape[2:]), np.uint8)
    start = 0
    for unroll, end in enumerate(ends.tolist()):
        here = slice(unroll, unroll + 1)
        decompress_frames(PackedFrames(packed.payload, packed.starts[here], packed.lengths[here]), decoded)
        item, place = items[start:end], places[start:end]
        start = end
        out[item, stack - 1 + place] = decoded[0, stack - 1 + rows[item, place]]
        for i in item[place == 0].tolist():
            begin, row = int(begins_of_row_0[i]), int(rows[i, 0])
            wanted = np.arange(row - stack + 1, row)
            out[i, : stack - 1] = decoded[0, stack - 1 + np.maximum(wanted, begin)]
            if padding == "zeros":
                out[i, : stack - 1][wanted < begin] = 0
