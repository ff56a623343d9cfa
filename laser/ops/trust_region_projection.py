"""ACER's trust region: a gradient on a policy's statistics, projected so that the policy stays near its average."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

# No probability is divided by a smaller one.
MIN_PROBABILITY = 1e-6


@torch.no_grad()
def project_to_trust_region(gradient: Tensor, kl_gradient: Tensor, threshold: float | Tensor) -> Tensor:
    """Return the nearest gradient along which the divergence grows by no more than a threshold.

        z = argmin_z |g - z|^2 / 2   subject to   k . z <= delta
          = g - max(0, (k . g - delta) / |k|^2) k

    With both signs turned (a descent direction, and the gradient of the negative divergence) the sign of z turns. The
    threshold is for one sample: nothing may be averaged before.

    Args:
        gradient: [..., n] g, of the objective with respect to the statistics of one state's policy.
        kl_gradient: [..., n] k, of KL(average policy || policy) with respect to the same.
        threshold: delta, above 0; infinity leaves every gradient as it is.

    Returns:
        [..., n] z.

    Source:
        Wang et al. 2017 (ACER), equation 12 and section 3.3.
    """
    excess = (gradient * kl_gradient).sum(-1, keepdim=True) - threshold
    # Where the policy is its own average k is 0 and so is the excess' positive part.
    square = kl_gradient.square().sum(-1, keepdim=True).clamp(min=torch.finfo(gradient.dtype).tiny)
    return gradient - (excess.clamp(min=0.0) / square) * kl_gradient


@torch.no_grad()
def categorical_kl_gradient(average_probs: Tensor, probs: Tensor) -> Tensor:
    """Return the gradient of KL(average || policy) with respect to the policy's probabilities: -average / policy.

    Args:
        average_probs: [..., A].
        probs: [..., A].
    """
    return -average_probs / probs.clamp(min=MIN_PROBABILITY)


@torch.no_grad()
def gaussian_kl_gradient(average: Mapping[str, Tensor], policy: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradient of KL(average || policy) with respect to the policy's mean and standard deviation.

        d/dm = (m - m_avg) / s^2,   d/ds = 1 / s - (s_avg^2 + (m - m_avg)^2) / s^3

    Args:
        average: "mean" and "std", [..., d].
        policy: the same.
    """
    shift, std = policy["mean"] - average["mean"], policy["std"]
    spread = average["std"].square() + shift.square()
    return {"mean": shift / std.square(), "std": 1.0 / std - spread / std**3}
