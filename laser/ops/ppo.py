"""Proximal policy optimisation: generalised advantages and the clipped objective."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from laser.ops.scan import reverse_linear_scan


class GaeTargets(NamedTuple):
    """Results of `gae_targets`.

    Args:
        advantages: [T, B]; 0 on invalid rows.
        returns: [T, B], value targets `values + advantages`.
    """

    advantages: Tensor
    returns: Tensor


@torch.no_grad()
def gae_targets(
    rewards: Tensor,
    discounts: Tensor,
    values: Tensor,
    bootstrap_value: Tensor,
    *,
    lambda_: float,
    valid: Tensor | None = None,
) -> GaeTargets:
    """Return generalised advantage estimates.

        delta[t] = r[t] + disc[t] * V[t+1] - V[t]
        adv[t]   = delta[t] + disc[t] * lambda * adv[t+1]

    Args:
        rewards: [T, B] reward after the action.
        discounts: [T, B] gamma * (1 - terminated).
        values: [T, B] V of row t's state.
        bootstrap_value: [B] V of the state after the last row.
        lambda_: in [0, 1]; 0 gives one-step advantages, 1 returns less values.
        valid: bool [T, B], False rows hold no transition; None: all do.

    Source:
        Schulman et al. 2016 (GAE), equation 16.
    """
    next_values = torch.cat([values[1:], bootstrap_value.unsqueeze(0)])
    deltas = torch.addcmul(rewards, discounts, next_values) - values
    coefficients = discounts * lambda_
    if valid is not None:
        deltas = torch.where(valid, deltas, 0.0)
        coefficients = torch.where(valid, coefficients, 0.0)
    advantages = reverse_linear_scan(deltas, coefficients)
    return GaeTargets(advantages, values + advantages)


def clipped_objective(log_rhos: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return min(rho * A, clamp(rho, 1 - clip, 1 + clip) * A), [...], to be maximised.

    Args:
        log_rhos: [...] log pi(a|s) - log mu(a|s), with gradient.
        advantages: [...], without.
        clip: largest rewarded deviation of the ratio from 1, above 0.

    Source:
        Schulman et al. 2017 (PPO), equation 7.
    """
    rhos = log_rhos.exp()
    return torch.minimum(rhos * advantages, rhos.clamp(1.0 - clip, 1.0 + clip) * advantages)
