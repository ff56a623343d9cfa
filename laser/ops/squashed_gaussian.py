"""Gaussians squashed into (-1, 1) by a hyperbolic tangent: draws and their log densities."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

_LOG_2PI = math.log(2.0 * math.pi)
_LOG_2 = math.log(2.0)

UNIFORM_STD = 0.87
"""With mean 0 and this standard deviation, squashed draws are about uniform in (-1, 1)."""


def squashed_log_prob(mean: Tensor, std: Tensor, unsquashed: Tensor) -> Tensor:
    """Return the log density of actions tanh(u).

        log p(tanh u) = sum_i log N(u_i; mean_i, std_i) - log(1 - tanh(u_i)^2)

    The last term is 2 (log 2 - u - softplus(-2 u)), which stays exact where tanh(u) rounds to 1.

    Args:
        mean: [..., d] of the Gaussian.
        std: [..., d].
        unsquashed: u, [..., d]; it cannot be recovered from the action where tanh(u) rounds to 1.

    Returns:
        [...] nats, with respect to volume in (-1, 1)^d.

    Source:
        Haarnoja et al. 2018 (SAC), appendix C.
    """
    standard = (unsquashed - mean) / std
    log_slopes = 2.0 * (_LOG_2 - unsquashed - F.softplus(-2.0 * unsquashed))
    exponents = 0.5 * standard.square() + std.log() + log_slopes
    return -exponents.sum(-1) - 0.5 * mean.shape[-1] * _LOG_2PI


def squashed_draw(mean: Tensor, std: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions computed from standard normal numbers, with gradients to mean and std, and their log densities.

    Args:
        mean: [..., d].
        std: [..., d].
        normal: standard normal numbers [..., d].

    Returns:
        actions [..., d] in [-1, 1], and log densities [...].
    """
    unsquashed = mean + std * normal
    return unsquashed.tanh(), squashed_log_prob(mean, std, unsquashed)
