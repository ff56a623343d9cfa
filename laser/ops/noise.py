"""Exploration noise for deterministic policies, correlated over steps."""

from __future__ import annotations

from torch import Tensor


def ornstein_uhlenbeck_step(noise: Tensor, first: Tensor, theta: float, std: float, normal: Tensor) -> Tensor:
    """Return the noise of the next step, `(1 - theta) * noise + std * normal`; from 0 where an episode begins.

    Its standard deviation settles at `std / sqrt(1 - (1 - theta)^2)`, so that theta = 1 is plain Gaussian noise.

    Args:
        noise: [N, d], noise of the step before.
        first: bool [N], an episode begins.
        theta: in [0, 1], share of the noise that decays per step.
        std: standard deviation of the number added at each step.
        normal: [N, d] standard normal draws.

    Source:
        Lillicrap et al. 2016 (DDPG), section 3, discretised with a time step of 1.
    """
    kept = noise.masked_fill(first.unsqueeze(-1), 0.0)
    return (1.0 - theta) * kept + std * normal
