"""The implied policy of clipped ratios, and its divergence from the target policy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Stands for log(infinity) as `rho_clip`: larger than any log ratio, and finite, so that -inf + it stays -inf.
_LARGEST_LOG_CLIP = 1e9


@torch.no_grad()
def implied_policy_kl(pi_logits: Tensor, mu_logits: Tensor, rho_clip: float) -> Tensor:
    """Return KL(pi || pi~mu) per state: the bias that V-trace's clipping leaves when mu acted and pi is learned.

    V-trace with ratios clipped at rho_clip learns the value of the implied policy

        pi~(a) = min(rho_clip * mu(a), pi(a)) / Z,   Z = sum_a min(rho_clip * mu(a), pi(a))

    and, without dividing by pi~,

        KL(pi || pi~) = sum_a pi(a) * max(0, log pi(a) - log mu(a) - log rho_clip) + log Z.

    It is 0 on-policy and infinite where mu excludes an action that pi allows. A state is inside the trust region iff
    KL < threshold (the text after equation 7 prints the inequality the other way round). Logits may be -inf; the
    result is never NaN for a proper distribution.

    Args:
        pi_logits: [..., A] unnormalised log probabilities of the target policy.
        mu_logits: [..., A] of the behaviour policy.
        rho_clip: bound on the ratios, above 0; infinity for none.

    Returns:
        [...] nats, in [0, inf].

    Raises:
        ValueError: `rho_clip` is not above 0.

    Source:
        Schmitt et al. 2020 (LASER), section 2.3 and proposition 1.
    """
    log_clip = _log_clip(rho_clip)
    log_pi = pi_logits.log_softmax(-1)
    log_mu = mu_logits.log_softmax(-1)
    # By how much the clip lowers log pi(a). An action that pi excludes costs nothing, whatever mu does with it.
    excess = torch.where(log_pi == -math.inf, 0.0, (log_pi - log_mu - log_clip).clamp(min=0.0))
    log_normalizer = torch.logsumexp(log_pi - excess, -1)
    cost = (log_pi.exp() * excess).sum(-1)
    # Where mu excludes an action the answer is infinite even if pi(a) underflows to 0 (0 * inf) or Z is 0 (inf - inf).
    excluded = (excess == math.inf).any(-1)
    kl = torch.where(excluded, math.inf, cost + log_normalizer)
    return kl.clamp(min=0.0)  # rounding gives -4e-7 on-policy


@torch.no_grad()
def implied_policy_kl_multi(
    pi_logits: Tensor, mu_logits: Tensor, num_actions: Sequence[int], rho_clip: float
) -> Tensor:
    """Return KL(pi || pi~mu) of several independent choices, exactly, by enumerating their product.

    The clip acts on the ratio of the joint action, so this is not the sum over the choices.

    Args:
        pi_logits: [..., sum(num_actions)] logits of all choices side by side.
        mu_logits: [..., sum(num_actions)].
        num_actions: how many actions each choice has; costs their product per state.
        rho_clip: bound on the ratios, above 0.

    Returns:
        [...] nats, in [0, inf].
    """
    return implied_policy_kl(
        _joint_log_probs(pi_logits, num_actions), _joint_log_probs(mu_logits, num_actions), rho_clip
    )


@torch.no_grad()
def implied_policy_kl_sampled(log_ratios: Tensor, rho_clip: float) -> Tensor:
    """Estimate KL(pi || pi~mu) from actions drawn from pi, for action spaces that cannot be enumerated.

        Z = E_pi min(1, rho_clip * mu/pi),   KL = E_pi max(0, log(pi/mu) - log rho_clip) + log Z

    Draw fresh actions; with the executed one, rejection would depend on the action and bias the policy gradient. The
    logarithm of a mean is biased low, so use 64 or more samples. Never negative (Jensen).

    Args:
        log_ratios: [num_samples, ...] log pi(a) - log mu(a) at a ~ pi.
        rho_clip: bound on the ratios, above 0.

    Returns:
        [...] nats, in [0, inf].
    """
    excess = (log_ratios - _log_clip(rho_clip)).clamp(min=0.0)
    cost = excess.mean(0)
    log_normalizer = torch.logsumexp(-excess, 0) - math.log(len(excess))
    return torch.where(cost == math.inf, math.inf, cost + log_normalizer).clamp(min=0.0)


@torch.no_grad()
def implied_policy_kl_gaussian(
    pi_mean: Tensor, pi_std: Tensor, mu_mean: Tensor, mu_std: Tensor, rho_clip: float, noise: Tensor
) -> Tensor:
    """Estimate KL(pi || pi~mu) between diagonal Gaussians, with the same noise for every state.

    With shift = (pi_mean - mu_mean) / mu_std, ratio = pi_std / mu_std and a = pi_mean + pi_std * noise,

        log pi(a) - log mu(a) = sum_d [ shift^2 / 2 - log ratio + shift * ratio * noise + (ratio^2 - 1) / 2 * noise^2 ]

    so all samples of all states are two matrix products. Each state's estimate has the same distribution as with noise
    of its own; only the errors of different states are correlated.

    Args:
        pi_mean: [..., d].
        pi_std: [..., d], above 0.
        mu_mean: [..., d].
        mu_std: [..., d], above 0.
        rho_clip: bound on the ratios, above 0.
        noise: [num_samples, d] standard normal, fresh for every batch and independent of the executed actions.

    Returns:
        [...] nats, in [0, inf].
    """
    shift = (pi_mean - mu_mean) / mu_std
    ratio = pi_std / mu_std
    constant = (0.5 * shift.square() - ratio.log()).sum(-1, keepdim=True)
    log_ratios = constant + (shift * ratio) @ noise.T + (0.5 * (ratio.square() - 1.0)) @ noise.square().T
    return implied_policy_kl_sampled(log_ratios.movedim(-1, 0), rho_clip)


def _log_clip(rho_clip: float) -> float:
    if not rho_clip > 0.0:
        raise ValueError(f"rho_clip must be above 0, got {rho_clip}")
    return min(math.log(rho_clip), _LARGEST_LOG_CLIP)


def _joint_log_probs(logits: Tensor, num_actions: Sequence[int]) -> Tensor:
    joint, *others = (part.log_softmax(-1) for part in torch.split(logits, list(num_actions), -1))
    for part in others:
        joint = (joint.unsqueeze(-1) + part.unsqueeze(-2)).flatten(-2)
    return joint
