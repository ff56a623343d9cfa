"""Pixel control: an auxiliary task that learns to change the picture."""

from __future__ import annotations

import torch
from torch import Tensor

from laser.ops.scan import reverse_linear_scan


@torch.no_grad()
def pixel_changes(frames: Tensor, cell: int) -> Tensor:
    """Return how much each cell of the picture changes from one row to the next.

    Pixels are scaled to [0, 1]; the result is the mean absolute difference over a cell's pixels and channels. Rows and
    columns at the lower right that do not fill a cell are left out.

    Args:
        frames: uint8 [T+1, B, channels, height, width].
        cell: edge of a cell in pixels.

    Returns:
        float32 [T, B, height // cell, width // cell].
    """
    channels, height, width = frames.shape[2:]
    rows, columns = height // cell, width // cell
    frames = frames[..., : rows * cell, : columns * cell]
    before, after = frames[:-1], frames[1:]
    changes = torch.maximum(before, after) - torch.minimum(before, after)  # stays in bytes
    cells = changes.reshape(*changes.shape[:3], rows, cell, columns, cell)
    return cells.sum((2, 4, 6), dtype=torch.int32) / (255.0 * channels * cell * cell)


@torch.no_grad()
def pixel_control_targets(changes: Tensor, best: Tensor, terminated: Tensor, used: Tensor, discount: float) -> Tensor:
    """Return n-step Q targets of each cell, within the unroll and within the trust region.

        y[t] = u[t] + discount * (1 - terminated[t]) * (y[t+1] if used[t+1] else max_a Q(s[t+1], a)),
        y[T] = max_a Q(s[T], a)

    Args:
        changes: [T, B, rows, columns] u, pseudo-rewards.
        best: [T+1, B, rows, columns] max_a Q.
        terminated: bool [T, B], nothing follows.
        used: bool [T, B], rows with a transition that the trust region accepts; targets elsewhere mean nothing. An
            episode's final observation is such a row, so no target crosses an episode's end.
        discount: of the pseudo-rewards.

    Source:
        Jaderberg et al. 2017 (UNREAL), section 3.1.
    """
    follows = torch.cat([used[1:], torch.zeros_like(used[:1])])[..., None, None]
    keep = ((~terminated).to(changes.dtype) * discount)[..., None, None]
    deltas = changes + torch.where(follows, 0.0, keep * best[1:])
    return reverse_linear_scan(deltas, (keep * follows).expand_as(deltas))
