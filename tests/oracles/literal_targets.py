"""Targets written the slow way, straight from the papers' sums, in float64 NumPy, without the shipped code."""

from __future__ import annotations

import numpy as np


def literal_vtrace(
    rhos,
    rewards,
    discounts,
    values,
    bootstrap,
    rho_clip=1.0,
    c_clip=1.0,
    pg_rho_clip=1.0,
    lambda_=1.0,
    lambda_advantages=False,
    weight=None,
):
    """IMPALA section 4.1 as a double sum; `weight` in {0, 1} multiplies every ratio (LASER equation 7)."""
    num_rows, num_columns = rewards.shape
    weight = np.ones_like(rewards) if weight is None else weight.astype(np.float64)
    all_values = np.concatenate([values, bootstrap[None]])
    vs = np.zeros((num_rows + 1, num_columns))
    vs[-1] = bootstrap
    for b in range(num_columns):
        for s in range(num_rows):
            total = values[s, b]
            for t in range(s, num_rows):
                trace = 1.0
                for i in range(s, t):
                    trace *= discounts[i, b] * lambda_ * weight[i, b] * min(c_clip, rhos[i, b])
                error = rewards[t, b] + discounts[t, b] * all_values[t + 1, b] - all_values[t, b]
                total += trace * weight[t, b] * min(rho_clip, rhos[t, b]) * error
            vs[s, b] = total
    if lambda_advantages:
        after = lambda_ * vs[1:] + (1 - lambda_) * all_values[1:]
        return vs[:-1], weight * np.minimum(pg_rho_clip, rhos) * (rewards + discounts * after - values)
    advantages = weight * np.minimum(pg_rho_clip, rhos) * (rewards + discounts * vs[1:] - values)
    return vs[:-1], advantages


def literal_retrace(q_taken, next_values, rhos, rewards, discounts, lambda_=1.0, valid=None):
    """Munos et al. 2016, equation 3, as a double sum that stops at a row without a transition."""
    num_rows, num_columns = rewards.shape
    valid = np.ones_like(rewards, bool) if valid is None else valid
    targets = q_taken.copy()
    for b in range(num_columns):
        for s in range(num_rows):
            trace = 1.0
            for t in range(s, num_rows):
                if not valid[t, b]:
                    break
                if t > s:
                    trace *= discounts[t - 1, b] * lambda_ * min(1.0, rhos[t, b])
                targets[s, b] += trace * (rewards[t, b] + discounts[t, b] * next_values[t, b] - q_taken[t, b])
    return targets


def implied_policy(pi, mu, rho_clip):
    """LASER's pi~mu: the clipped policy, normalised."""
    clipped = np.minimum(rho_clip * mu, pi)
    return clipped / clipped.sum(-1, keepdims=True)


def literal_implied_kl(pi, mu, rho_clip):
    """KL(pi || pi~mu) by dividing by pi~mu, summed over the actions that pi allows."""
    implied = implied_policy(pi, mu, rho_clip)
    terms = np.zeros_like(pi)
    allowed = pi > 0
    with np.errstate(divide="ignore"):
        terms[allowed] = pi[allowed] * np.log(pi[allowed] / implied[allowed])
    return terms.sum(-1)
