"""Picks, of one number per action, that of the action taken."""

from __future__ import annotations

from torch import Tensor


def taken(values: Tensor, actions: Tensor) -> Tensor:
    """Return `values[..., actions]`.

    Args:
        values: [..., A], one per action (or task).
        actions: int64 [...].

    Returns:
        [...].
    """
    return values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
