"""Action masks: policies and action values over the allowed actions of a state.

A forbidden action has one finite logit, `MASKED`, in every policy. Its probability is 0 exactly, and so are its terms
in entropies, divergences and their gradients: 0 times a finite number, where an infinite logit would give NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from laser.specs import ACTION_MASK

# Far below any logit or action value, and finite in bfloat16 as well.
MASKED = -1e9


def mask_logits(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Return logits, or action values, that are `MASKED` where an action is forbidden.

    Args:
        logits: [..., A].
        mask: bool [..., A], True where allowed; None: everywhere.
    """
    return logits if mask is None else torch.where(mask, logits, MASKED)


def count_allowed(mask: Tensor) -> Tensor:
    """Return the number of allowed actions, int64 [..., 1]; 1 in padding, which allows none."""
    return mask.sum(-1, keepdim=True).clamp(min=1)


def mean_of_allowed(values: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean over the allowed actions, [..., 1].

    Args:
        values: [..., A].
        mask: bool [..., A]; None: all are allowed.
    """
    if mask is None:
        return values.mean(-1, keepdim=True)
    return torch.where(mask, values, 0.0).sum(-1, keepdim=True) / count_allowed(mask)


def find_mask(observations: Mapping[str, Tensor]) -> Tensor | None:
    """Return the action mask among observations; None if every action is allowed.

    Only masks are bools: with `action-masks off`, an observation called `action_mask` is a vector like any other.
    """
    mask = observations.get(ACTION_MASK)
    return mask if mask is not None and mask.dtype == torch.bool else None
