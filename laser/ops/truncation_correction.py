"""ACER's policy gradient: truncated importance ratios, with a correction of the bias under the policy.

    g = min(c, rho) (Q^ret - V) d log pi(a) + E_{a' ~ pi} [1 - c / rho(a')]_+ (Q(a') - V) d log pi(a')

The first factor is bounded by c, the second by 1. With exact action values the mean of g over the behaviour's actions
is the policy gradient, whatever c is. The gradients here are of the objective (ascent) with respect to the statistics
of the policy in one state, before anything is averaged.

Source:
    Wang et al. 2017 (ACER), equations 7 to 9.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from laser.ops.trust_region_projection import MIN_PROBABILITY
from laser.ops.vtrace import MAX_LOG_RHO


def truncated(log_rhos: Tensor, clip: float) -> Tensor:
    """Return min(c, rho), the weight of the action taken.

    Args:
        log_rhos: [...].
        clip: c, at least 1; may be infinite.
    """
    return log_rhos.clamp(max=MAX_LOG_RHO).exp().clamp(max=clip)


def correction(log_rhos: Tensor, clip: float) -> Tensor:
    """Return [1 - c / rho]_+, the weight of an action drawn from the policy.

    Args:
        log_rhos: [...].
        clip: c, at least 1; may be infinite.
    """
    return (1.0 - clip * (-log_rhos.clamp(max=MAX_LOG_RHO)).exp()).clamp(min=0.0)


@torch.no_grad()
def categorical_gradient(
    log_probs: Tensor,
    mu_log_probs: Tensor,
    actions: Tensor,
    advantages: Tensor,
    all_advantages: Tensor,
    clip: float,
) -> Tensor:
    """Return g with respect to the probabilities; the expectation over the policy's actions is a sum over all.

        g(a) = [a taken] min(c, rho) (Q^ret - V) / pi(a) + [1 - c / rho(a)]_+ (Q(a) - V)

    Args:
        log_probs: [..., A] of the policy.
        mu_log_probs: [..., A] of the behaviour; may be -inf.
        actions: int64 [...] taken.
        advantages: [...] Q^ret - V.
        all_advantages: [..., A] Q - V.
        clip: c, at least 1; may be infinite.
    """
    log_rhos = log_probs - mu_log_probs
    gradient = correction(log_rhos, clip) * all_advantages
    taken = actions.unsqueeze(-1)
    weights = truncated(log_rhos.gather(-1, taken), clip) / log_probs.gather(-1, taken).exp().clamp(min=MIN_PROBABILITY)
    return gradient.scatter_add(-1, taken, weights * advantages.unsqueeze(-1))


@torch.no_grad()
def gaussian_log_prob_gradient(policy: Mapping[str, Tensor], actions: Tensor) -> dict[str, Tensor]:
    """Return the gradient of log pi(a) with respect to mean and standard deviation, [..., d] each.

    Args:
        policy: "mean" and "std", [..., d].
        actions: [..., d].
    """
    shift, std = actions - policy["mean"], policy["std"]
    return {"mean": shift / std.square(), "std": shift.square() / std**3 - 1.0 / std}
