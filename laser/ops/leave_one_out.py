"""Policy gradients from action values and one return: leave-one-out, and importance sampling, truncated or not.

Each function returns an objective per row whose gradient is the estimator: maximise its sum. Only the policy is
differentiated. One number in [1, inf], the `clip`, bounds the weight of the return:

    leave_one_out        clip 1: beta = 1      clip c: beta = min(c, 1/mu)           clip inf: beta = 1/mu, unbiased
    importance_sampling                        clip c: truncated, with correction    clip inf: plain

Source: Gruslys et al. 2017 (the Reactor), section 2.2; Wang et al. 2017 (ACER) for the truncation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from laser.ops.action_masks import mask_logits
from laser.ops.taken import taken
from laser.ops.truncation_correction import categorical_gradient
from laser.ops.vtrace import MAX_LOG_RHO


def leave_one_out(
    log_probs: Tensor, q_values: Tensor, returns: Tensor, actions: Tensor, log_mu: Tensor, clip: float
) -> Tensor:
    """Return objectives that use the return for the action taken and action values for all others.

        G = beta (R - Q(A)) grad pi(A) + sum_a Q(a) grad pi(a),   beta = min(clip, 1 / mu(A))

    With A ~ mu and E R(A) = Q^pi(A) its bias is |sum_a (1 - mu(a) beta(a)) (Q(a) - Q^pi(a)) grad pi(a)|: none where the
    action values are exact, whatever beta, and none for beta = 1/mu, whatever the action values. A large beta costs
    variance.

    Args:
        log_probs: [..., A] log pi(a|s); differentiated.
        q_values: [..., A] Q(s, a).
        returns: [...] R, an estimate of Q^pi(s, A).
        actions: int64 [...] A.
        log_mu: [..., A] log mu(a|s), what the actions were drawn from.
        clip: bound on beta, at least 1.

    Returns:
        [...].
    """
    probs, q_values = log_probs.exp(), q_values.detach()
    with torch.no_grad():
        betas = (-taken(log_mu, actions)).clamp(max=MAX_LOG_RHO).exp().clamp(max=clip)
        corrections = betas * (returns - taken(q_values, actions))
    return corrections * taken(probs, actions) + (q_values * probs).sum(-1)


def importance_sampling(
    log_probs: Tensor, q_values: Tensor, returns: Tensor, actions: Tensor, log_mu: Tensor, clip: float
) -> Tensor:
    """Return objectives of the likelihood-ratio estimate, truncated, with a correction from action values.

        G = min(clip, rho(A)) (R - V) grad log pi(A) + sum_a (rho(a) - clip)_+ mu(a) (Q(a) - V) grad log pi(a)

    with rho = pi / mu and V = sum_a pi(a) Q(a). Unbiased for clip = inf, where the sum is empty; below, as far as Q is.
    The paper prints Q^pi in the sum, which is unknown: it is Q here.

    Args:
        log_probs: [..., A] log pi(a|s); differentiated.
        q_values: [..., A] Q(s, a).
        returns: [...] R, an estimate of Q^pi(s, A).
        actions: int64 [...] A.
        log_mu: [..., A] log mu(a|s), what the actions were drawn from.
        clip: bound on the ratio, at least 1.

    Returns:
        [...].
    """
    probs = log_probs.exp()
    with torch.no_grad():
        values = (probs * q_values).sum(-1)
        advantages = q_values - values.unsqueeze(-1)
        weights = categorical_gradient(log_probs, log_mu, actions, returns - values, advantages, clip)
    return (weights * probs).sum(-1)


def mean_action_gap(q_values: Tensor, rows: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the mean over rows of the best action's value minus that of a random other action; 0 without rows.

    Args:
        q_values: [T, B, A], at least two actions.
        rows: bool [T, B], which ones count.
        mask: bool [T, B, A], allowed actions; rows with one alone do not count. None: all are allowed.

    Source:
        Gruslys et al. 2017 (the Reactor), section 3.5.
    """
    best = mask_logits(q_values, mask).amax(-1)
    if mask is None:
        others = (q_values.sum(-1) - best) / (q_values.shape[-1] - 1)
    else:
        num_others = mask.sum(-1) - 1
        rows = rows & (num_others > 0)
        others = (torch.where(mask, q_values, 0.0).sum(-1) - best) / num_others.clamp(min=1)
    return torch.where(rows, best - others, 0.0).sum() / rows.sum().clamp(min=1)
