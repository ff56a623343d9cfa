"""Remember-and-forget experience replay: which steps count as near-policy, and the pull towards the behaviour."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor

Number = TypeVar("Number", float, Tensor)


def near_policy(log_rhos: Tensor, c_max: float | Tensor) -> Tensor:
    """Return which steps are near-policy, `1 / c_max < rho < c_max`, without gradient.

    Args:
        log_rhos: [...] log pi(a|s) - log mu(a|s). NaN counts as far.
        c_max: bound on the ratio and its inverse, above 1; inf accepts everything finite.

    Returns:
        bool [...].

    Source:
        Novati and Koumoutsakos 2019 (ReF-ER), section 3, rule 1.
    """
    bound = c_max.log() if isinstance(c_max, Tensor) else math.log(c_max)
    return log_rhos.detach().abs() < bound


def refer_terms(losses: Tensor, kls: Tensor, near: Tensor, beta: float | Tensor) -> Tensor:
    """Mix each step's loss with its divergence from the behaviour.

        beta * loss + (1 - beta) * KL(mu || pi)   for near-policy steps
                      (1 - beta) * KL(mu || pi)   for the others

    Args:
        losses: [...] term of a near-policy step; may hold anything elsewhere.
        kls: [...] KL(mu || pi) in nats.
        near: bool [...], from `near_policy`.
        beta: in [0, 1].

    Returns:
        [...] with gradients to `losses` (near steps only) and `kls`.

    Source:
        Novati and Koumoutsakos 2019 (ReF-ER), equation 3, as a loss to minimise.
    """
    return beta * torch.where(near, losses, 0.0) + (1.0 - beta) * kls


def annealed(initial: float, num_updates: int, annealing: float) -> float:
    """Return `initial / (1 + annealing * num_updates)`, for step sizes.

    The paper's equation 10 is set as `5e^{-7.k}`; it means 5 * 10^-7 times k.
    """
    return initial / (1.0 + annealing * num_updates)


def c_max_at(num_updates: int, c: float, annealing: float) -> float:
    """Return the bound on importance ratios after `num_updates`, `1 + c / (1 + annealing * num_updates)`."""
    return 1.0 + annealed(c, num_updates, annealing)


def next_beta(beta: Number, far_fraction: float, tolerance: float, rate: float) -> Number:
    """Return beta after one update: towards 0 where too many stored steps are far-policy, else towards 1.

    Args:
        beta: scalar in [0, 1].
        far_fraction: far-policy fraction of the stored steps, by their most recent ratios.
        tolerance: D, the fraction to hold.
        rate: how far one update moves beta, in [0, 1].

    Source:
        Novati and Koumoutsakos 2019 (ReF-ER), equation 4.
    """
    shrunk = (1.0 - rate) * beta
    return shrunk if far_fraction > tolerance else shrunk + rate
