"""Epsilon-greedy policies as logits, so that the whole behaviour policy can be stored."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from laser.ops.action_masks import count_allowed, mask_logits

# A replay takes finite logits only: an action that is never taken gets this probability.
LEAST_PROBABILITY = 1e-8


def epsilon_greedy_logits(q_values: Tensor, epsilon: Tensor | float, mask: Tensor | None = None) -> Tensor:
    """Return log probabilities of the epsilon-greedy policy: the best action, or a random one with probability epsilon.

        p(a) = epsilon / A + (1 - epsilon) * [a is the first of the best]

    Args:
        q_values: [..., A].
        epsilon: in [0, 1], a number or a tensor that broadcasts over [..., 1].
        mask: bool [..., A], allowed actions: A counts them, and the best is one of them; None: all.

    Returns:
        [..., A]; at least log `LEAST_PROBABILITY` where allowed, `MASKED` elsewhere.
    """
    num_allowed = q_values.shape[-1] if mask is None else count_allowed(mask)
    best = F.one_hot(mask_logits(q_values, mask).argmax(-1), q_values.shape[-1]).to(q_values.dtype)
    log_probs = (epsilon / num_allowed + (1.0 - epsilon) * best).clamp(min=LEAST_PROBABILITY).log()
    return mask_logits(log_probs, mask)


def linear_between(start: float, end: float, count: Tensor, num_counts: int) -> Tensor:
    """Return the linear interpolation from `start` at `count` 0 to `end` at `num_counts`, constant after that."""
    return start + (end - start) * (count / num_counts).clamp(max=1.0)
