"""Retrace(lambda) targets for action values."""

from __future__ import annotations

import torch
from torch import Tensor

from laser.ops.scan import reverse_linear_scan
from laser.ops.vtrace import MAX_LOG_RHO


@torch.no_grad()
def retrace_targets(
    q_taken: Tensor,
    next_values: Tensor,
    log_rhos: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    *,
    lambda_: float = 1.0,
    valid: Tensor | None = None,
) -> Tensor:
    """Return off-policy corrected targets for Q(s_t, a_t).

        delta[t]  = r[t] + disc[t] * next_values[t] - q_taken[t]
        target[t] = q_taken[t] + acc[t],   acc[t] = delta[t] + disc[t] * lambda * min(1, rho[t+1]) * acc[t+1]

    The trace into a step uses the ratio of that step's own action, `rho[t+1]`: unlike V-trace, Q(s_t, a_t) is given
    its action, so `rho[t]` does not enter. Invalid rows get their own `q_taken`. No gradient flows out.

    Special cases: lambda = 0 is the one-step expected target, and with `next_values` = max_a Q it is Q-learning's.

    Args:
        q_taken: [T, B] Q(s_t, a_t).
        next_values: [T, B] E_pi Q(s_{t+1}, .).
        log_rhos: [T, B] log pi(a_t|s_t) - log mu(a_t|s_t).
        rewards: [T, B] reward after the action.
        discounts: [T, B] gamma * (1 - terminated).
        lambda_: in [0, 1], shortens the traces.
        valid: bool [T, B], False rows hold no transition; None: all do.

    Returns:
        [T, B] targets.

    Source:
        Munos et al. 2016 (Retrace), equation 4.
    """
    rhos = log_rhos.clamp(max=MAX_LOG_RHO).exp()
    next_traces = torch.cat([lambda_ * rhos[1:].clamp(max=1.0), torch.zeros_like(rhos[:1])])
    deltas = torch.addcmul(rewards, discounts, next_values) - q_taken
    coefficients = discounts * next_traces
    if valid is not None:
        # The next row's ratio means nothing where that row holds no transition, so it is cut there as well.
        next_valid = torch.cat([valid[1:], torch.zeros_like(valid[:1])])
        deltas = torch.where(valid, deltas, 0.0)
        coefficients = torch.where(valid & next_valid, coefficients, 0.0)
    return q_taken + reverse_linear_scan(deltas, coefficients)
