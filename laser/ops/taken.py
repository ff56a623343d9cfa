"""Selection of the taken action's number from one number per action."""

from __future__ import annotations

from torch import Tensor


def taken(values: Tensor, actions: Tensor) -> Tensor:
    """Return `values[..., actions]`.

    Args:
        values: [..., A], one number per action (or task).
        actions: int64 [...].

    Returns:
        [...].
    """
    return values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
