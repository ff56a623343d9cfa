"""The rows that keep the second moment of the log ratios below a bound."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def second_moment_mask(log_rhos: Tensor, valid: Tensor, threshold: float | Tensor) -> Tensor:
    """Return the largest set of rows whose mean of (log rho)^2 is at most `threshold`, bool [T, B].

    The rows with the largest ratios, up or down, are left out first; rows with equal ratios are left out together. The
    set may be empty. Unlike a trust region per state it depends on the whole batch: where most of a batch is near, some
    far rows are kept.

    Args:
        log_rhos: [T, B] log pi(a|s) - log mu(a|s); anything on invalid rows.
        valid: bool [T, B], False rows hold no transition.
        threshold: bound on the mean, in nats squared.

    Source:
        Zheng et al. 2025 (M2PO), there per token and with a threshold of 0.04.
    """
    squares = torch.where(valid, log_rhos, torch.inf).square().flatten()
    ordered = squares.sort().values
    counts = torch.arange(1, len(ordered) + 1, device=ordered.device)
    # Means over the smallest squares first never fall, so those within the bound come first.
    within = ordered.cumsum(0) <= threshold * counts
    # A tie beyond the last row within the bound would break it.
    largest = torch.where(within, ordered, -1.0).max()
    first_beyond = torch.where(within, torch.inf, ordered).min()
    kept = (squares <= largest) & (squares < first_beyond)
    return kept.view_as(valid) & valid
