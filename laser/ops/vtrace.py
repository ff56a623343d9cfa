"""V-trace targets, plain or inside LASER's trust region."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from laser.ops.scan import reverse_linear_scan

# exp(20) = 4.9e8: far above any clip in use, far below what overflows float32 in the products that follow.
MAX_LOG_RHO = 20.0


class VTraceTargets(NamedTuple):
    """Results of V-trace.

    Args:
        vs: [T, B] value targets; `values` themselves on rejected and invalid rows.
        pg_advantages: [T, B] advantages with their clipped ratio already applied; 0 on rejected and invalid rows.
    """

    vs: Tensor
    pg_advantages: Tensor


@torch.no_grad()
def vtrace_targets(
    log_rhos: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    values: Tensor,
    bootstrap_value: Tensor,
    *,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
    pg_rho_clip: float = 1.0,
    lambda_: float = 1.0,
    lambda_advantages: bool = False,
    accept: Tensor | None = None,
    valid: Tensor | None = None,
) -> VTraceTargets:
    """Correct n-step returns of the behaviour policy towards the target policy.

        delta[t] = min(rho_clip, rho[t]) * (r[t] + disc[t] * V[t+1] - V[t])
        vs[t]    = V[t] + sum_{k>=t} (prod_{t<=i<k} disc[i] * lambda * min(c_clip, rho[i])) * delta[k]
        adv[t]   = min(pg_rho_clip, rho[t]) * (r[t] + disc[t] * vs[t+1] - V[t]),   vs[T] = bootstrap_value

    A row that the trust region rejects, or that holds no transition, contributes no delta and cuts the trace: the row
    before it bootstraps from its value. No gradient flows out of the targets.

    With `lambda_advantages`, lambda * vs[t+1] + (1 - lambda) * V[t+1] takes the place of vs[t+1] in adv[t].

    Special cases: rho = 1 everywhere gives n-step returns (lambda-returns for lambda < 1), and with `lambda_advantages`
    the advantages of GAE.

    Args:
        log_rhos: [T, B] log pi(a|s) - log mu(a|s); anything on invalid rows.
        rewards: [T, B] reward after the action.
        discounts: [T, B] gamma * (1 - terminated).
        values: [T, B] V of row t's state.
        bootstrap_value: [B] V of the state after the last row.
        rho_clip: bound on the ratio of deltas; it decides which policy's value is the fixed point.
        c_clip: bound on the ratio of traces; it decides the speed of convergence. At most `rho_clip`.
        pg_rho_clip: bound on the ratio of the advantages.
        lambda_: in [0, 1], shortens the traces.
        lambda_advantages: whether advantages are a mean over lambda of n-step ones, as targets are.
        accept: bool [T, B], True inside the trust region; None accepts all.
        valid: bool [T, B], False rows hold no transition; None: all do.

    Raises:
        ValueError: `rho_clip` is smaller than `c_clip`.

    Source:
        Espeholt et al. 2018 (IMPALA), section 4.1; Schmitt et al. 2020 (LASER), equation 7; for `lambda_advantages`
        Schulman et al. 2016 (GAE), equation 16, where all ratios are 1.
    """
    if not rho_clip >= c_clip:
        raise ValueError(f"rho_clip must be at least c_clip, got rho_clip={rho_clip} and c_clip={c_clip}")
    used = _both(accept, valid)
    rhos = log_rhos.clamp(max=MAX_LOG_RHO).exp()
    clipped_rhos = rhos.clamp(max=rho_clip)
    cs = clipped_rhos if c_clip == rho_clip else rhos.clamp(max=c_clip)
    pg_rhos = clipped_rhos if pg_rho_clip == rho_clip else rhos.clamp(max=pg_rho_clip)

    next_values = torch.cat([values[1:], bootstrap_value.unsqueeze(0)])
    deltas = clipped_rhos * (torch.addcmul(rewards, discounts, next_values) - values)
    coefficients = discounts * cs
    if lambda_ != 1.0:
        coefficients = coefficients * lambda_
    if used is not None:
        # `where`, not a product: what an unused row holds may be infinite.
        deltas = torch.where(used, deltas, 0.0)
        coefficients = torch.where(used, coefficients, 0.0)
    vs = values + reverse_linear_scan(deltas, coefficients)

    next_vs = torch.cat([vs[1:], bootstrap_value.unsqueeze(0)])
    if lambda_advantages:
        next_vs = torch.lerp(next_values, next_vs, lambda_)
    pg_advantages = pg_rhos * (torch.addcmul(rewards, discounts, next_vs) - values)
    if used is not None:
        pg_advantages = torch.where(used, pg_advantages, 0.0)
    return VTraceTargets(vs, pg_advantages)


def _both(accept: Tensor | None, valid: Tensor | None) -> Tensor | None:
    if accept is None:
        return valid
    return accept if valid is None else accept & valid
