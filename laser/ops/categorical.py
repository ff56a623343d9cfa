"""Returns as distributions over fixed atoms: the Bellman target projected back onto them (C51)."""

from __future__ import annotations

import torch
from torch import Tensor


def project(probabilities: Tensor, rewards: Tensor, discounts: Tensor, support: Tensor) -> Tensor:
    """Return the distribution of `r + disc * Z'` on the atoms of `support`.

        z = clamp(r + disc * z_j, z_min, z_max)
        p(z_i) = sum_j p_j * max(0, 1 - |z - z_i| / dz)

    Each atom's probability is split between the two atoms around its new position, by nearness; positions beyond the
    ends move to the end. The mean is kept if nothing was clamped.

    Args:
        probabilities: [B, K] of Z', rows sum to 1.
        rewards: [B].
        discounts: [B], 0 after a termination.
        support: [K] equally spaced atoms, ascending, K at least 2.

    Returns:
        [B, K], rows sum to 1.

    Source:
        Bellemare et al. 2017, equation 7.
    """
    num_atoms = len(support)
    lowest, highest = support[0], support[-1]
    spacing = (highest - lowest) / (num_atoms - 1)
    landed = torch.addcmul(rewards.unsqueeze(-1), discounts.unsqueeze(-1), support)
    positions = ((landed - lowest) / spacing).clamp(0, num_atoms - 1)  # in units of atoms
    below = positions.floor()
    to_above = positions - below
    lower = below.long()
    projected = torch.zeros_like(probabilities)
    projected.scatter_add_(-1, lower, probabilities * (1.0 - to_above))
    # On the last atom nothing goes above it: the share is 0 and so may be added anywhere.
    projected.scatter_add_(-1, (lower + 1).clamp(max=num_atoms - 1), probabilities * to_above)
    return projected
