"""The terms of an actor-critic loss, as weighted sums over rows.

A row's weight is 0 where it is rejected or holds no transition. Such a row may hold anything, infinities included, so
it is left out by selection and not by multiplication.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def policy_gradient_loss(log_probs: Tensor, advantages: Tensor, weights: Tensor) -> Tensor:
    """Return -sum w * adv * log pi(a): its gradient is the negative policy gradient. Differentiates `log_probs` only.

    Args:
        log_probs: [T, B] log pi(a|s).
        advantages: [T, B], taken as constants.
        weights: [T, B], at least 0.
    """
    factors = (weights * advantages).detach()
    return -_selected(factors * log_probs, factors).sum()


@torch.no_grad()
def within_clip(log_rhos: Tensor, advantages: Tensor, clip: float) -> Tensor | None:
    """Return the rows that still move the policy, bool [T, B]; None: all do.

    A row moves it no further once its action is 1 + clip times as likely as under the behaviour (advantage above 0), or
    1 + clip times as unlikely (below 0). So a replayed row cannot make the policy deterministic, however often it is
    drawn.

    Args:
        log_rhos: [T, B] log pi(a|s) - log mu(a|s).
        advantages: [T, B].
        clip: above 0; inf for none.

    Source:
        Schulman et al. 2017 (PPO), equation 7: where its objective is constant. Here the behaviour is that of each row,
        and the lower bound is 1 / (1 + clip), which any clip leaves above 0.
    """
    if clip == math.inf:
        return None
    return torch.where(advantages > 0.0, log_rhos, -log_rhos) <= math.log1p(clip)


def value_loss(values: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return sum w * (target - V)^2 / 2. Differentiates `values` only.

    Args:
        values: [T, B].
        targets: [T, B], taken as constants.
        weights: [T, B], at least 0.
    """
    # Selected before the square: its gradient would be 0 times what is not finite.
    errors = torch.where(weights != 0, values - targets.detach(), 0.0)
    return 0.5 * (weights * errors.square()).sum()


def weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    """Return sum w * x over the rows whose weight is not 0.

    Args:
        values: [T, B]; anything where the weight is 0.
        weights: [T, B].
    """
    return _selected(weights * values, weights).sum()


def _selected(products: Tensor, weights: Tensor) -> Tensor:
    return torch.where(weights != 0, products, 0.0)
