"""Action values from a state value and an advantage that is centred under the policy by sampling."""

from __future__ import annotations

from torch import Tensor


def stochastic_dueling(values: Tensor, advantages: Tensor, sampled_advantages: Tensor) -> Tensor:
    """Return action values whose mean under the policy is the state value.

        Q~(s, a) = V(s) + A(s, a) - 1/n sum_i A(s, u_i),   u_i ~ pi

    The samples are drawn without gradient, but gradients reach A through all its terms.

    Args:
        values: [...] V(s).
        advantages: [..., or K, ...] A(s, a), of one or of K actions per state.
        sampled_advantages: [n, ...] A(s, u_i).

    Source:
        Wang et al. 2017 (ACER), equation 13.
    """
    return values + advantages - sampled_advantages.mean(0)
