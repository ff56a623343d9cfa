"""Retrace from numbers that a step has in the replay: value, advantage and importance ratio."""

from __future__ import annotations

import torch
from torch import Tensor

from laser.ops.retrace import retrace_targets


@torch.no_grad()
def q_retrace_targets(
    values: Tensor,
    advantages: Tensor,
    rhos: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    *,
    lambda_: float = 1.0,
    valid: Tensor | None = None,
) -> Tensor:
    """Return Q^ret, RACER's estimate of the action value, for whole unrolls.

        Q^ret[t] = r[t] + disc[t] * (V[t+1] + lambda * min(1, rho[t+1]) * (Q^ret[t+1] - A[t+1] - V[t+1]))

    With A = 0 it is V-RACER's: Q^ret[t] = r[t] + disc[t] * V^tbc[t+1], where V^tbc is V-trace with both clips 1. The
    replay computes the same in NumPy for stored episodes (`replay_server.derived.retrace_sweep`); tests compare both,
    and a learner of whole unrolls would use this one.

    Args:
        values: [T+1, B] V(s_t).
        advantages: [T, B] A(s_t, a_t).
        rhos: [T, B] pi(a_t|s_t) / mu(a_t|s_t).
        rewards: [T, B] reward after the action.
        discounts: [T, B] gamma * (1 - terminated).
        lambda_: in [0, 1], shortens the traces.
        valid: bool [T, B], False rows hold no transition; None: all do.

    Returns:
        [T, B]; V + A on invalid rows.

    Source:
        Novati and Koumoutsakos 2019 (RACER), equation 2.
    """
    return retrace_targets(
        values[:-1] + advantages, values[1:], rhos.log(), rewards, discounts, lambda_=lambda_, valid=valid
    )
