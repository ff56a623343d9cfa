"""Normal distributions truncated at a number of standard deviations from the mean: the exploration of RACER."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor


def sample_truncated(mean: Tensor, std: Tensor, bound: float, generator: Generator | None) -> Tensor:
    """Draw from N(mean, std^2) given that no component is more than `bound` standard deviations away.

    Its density is the normal one times a constant, which cancels in importance ratios between two policies with equal
    bounds, so algorithms work with the plain density.

    Args:
        mean: [..., d].
        std: [..., d].
        bound: in standard deviations, above 0.
        generator: source of randomness; None uses torch's global one.

    Returns:
        [..., d].
    """
    device = generator.device if generator is not None else mean.device
    uniform = torch.rand(mean.shape, generator=generator, dtype=mean.dtype, device=device).to(mean.device)
    # Uniform between the cut-offs' probabilities, through the inverse of the normal distribution function. The clamp
    # is for rounding: erf(3 / sqrt(2)) is near enough to 1 that float32 may step outside.
    limit = math.erf(bound / math.sqrt(2.0))
    # An exact 0 would be the far end of the normal distribution where the limit rounds to 1.
    uniform = uniform.clamp(min=torch.finfo(uniform.dtype).eps / 4)
    standard = math.sqrt(2.0) * torch.erfinv((2.0 * uniform - 1.0) * limit)
    return mean + std * standard.clamp(-bound, bound)
