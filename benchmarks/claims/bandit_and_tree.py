"""Replay's need of fresh experience and of the trust region, in numbers that can be checked by hand.

Two exact computations, without sampling, take seconds on one core:

* Proposition 2 on its bandit: clipped ratios make the replayed policy gradient prefer the worse arm; the share of fresh
  experience that reverses the preference.
* A tree of two decisions with a foreign behaviour policy: the learner's final return, with and without the trust region
  and with a slow and a fast critic.

Source: Schmitt et al. 2020, section 3.1 and Proposition 2.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from parts import measure

from laser.ops.trust_region import implied_policy_kl

SAFE = 0.6
"""What the safe action of the first decision pays; the other leads on, where one action of five pays 1."""


def bandit() -> dict[str, Any]:
    """Return the numbers of Proposition 2 for Q = (2, 5), mu = (.9, .1), pi = (.5, .5), rho_clip = 1."""
    q, mu, pi = np.array([2.0, 5.0]), np.array([0.9, 0.1]), np.array([0.5, 0.5])
    omega = np.minimum(1.0, mu / pi)
    needed = (omega[0] * q[0] - omega[1] * q[1]) / (q[1] - q[0])  # alpha / (1 - alpha)
    return {
        "omega": omega.tolist(),
        "clipped_values": (omega * q).tolist(),
        "fresh_share_that_turns_the_preference": needed / (1.0 + needed),
        "ascent_ends_at_p_best": {f"{alpha:g}": _ascend(q, mu, alpha) for alpha in (0.0, 0.125, 0.3, 0.4)},
    }


def _ascend(q: np.ndarray, mu: np.ndarray, alpha: float, rate: float = 0.05, num_updates: int = 100_000) -> float:
    """Return p(best arm) after baseline-free gradient ascent on a softmax, a share `alpha` of it on-policy."""
    logits = np.zeros(2)
    for _ in range(num_updates):
        pi = _softmax(logits)
        weights = alpha * pi + (1.0 - alpha) * np.minimum(mu, pi)  # mu * min(1, pi / mu)
        force = weights * q
        logits += rate * (force - pi * force.sum())
    return float(_softmax(logits)[1])


@dataclass(frozen=True)
class Learning:
    """Settings of learning on the tree: fresh share of the data, trust region's threshold, critic's learning rate."""

    label: str
    fresh: float
    threshold: float = np.inf
    critic_rate: float = 0.01


LEARNINGS = (
    Learning("fresh only", 1.0),
    Learning("1/8 fresh, no trust region", 0.125),
    Learning("1/8 fresh, threshold 0.03", 0.125, 0.03),
    Learning("1/8 fresh, threshold 0.1", 0.125, 0.1),
    Learning("1/8 fresh, threshold 0.3", 0.125, 0.3),
    Learning("all replayed, no trust region", 0.0),
    Learning("1/8 fresh, no trust region, fast critic", 0.125, critic_rate=0.2),
    Learning("all replayed, no trust region, fast critic", 0.0, critic_rate=0.2),
)


def learn_tree(
    learning: Learning, num_updates: int = 6_000, policy_rate: float = 0.2, entropy_cost: float = 0.02
) -> float:
    """Return the expected return after exact expected V-trace updates; 1 is optimal.

    Replayed experience comes from one foreign policy. It continues with probability .8, and then chooses the rewarded
    action with probability .02. Entropy is rewarded on fresh experience only, as in the paper.
    """
    logits = [np.zeros(2), np.zeros(5)]
    values = np.zeros(2)
    foreign = [np.array([0.2, 0.8]), np.array([0.02, *[0.98 / 4] * 4])]
    pays = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    for _ in range(num_updates):
        policies = [_softmax(row) for row in logits]
        logit_steps = [np.zeros(2), np.zeros(5)]
        value_steps = np.zeros(2)
        for share, behaviour in ((learning.fresh, policies), (1.0 - learning.fresh, foreign)):
            accepted = [float(_kl(pi, mu)) < learning.threshold for pi, mu in zip(policies, behaviour, strict=True)]
            # Probability of an action times its clipped ratio; the second decision is reached through the first's.
            clipped = [np.minimum(mu, pi) for pi, mu in zip(policies, behaviour, strict=True)]
            reached = (1.0, behaviour[0][1])
            corrections = accepted[1] * (clipped[1] * (pays - values[1])).sum()  # vs - V of the second decision
            outcomes = [np.array([SAFE, values[1] + corrections]), pays]
            for state in (0, 1):
                if not accepted[state]:
                    continue
                # The trace of the value target is clipped at 1 too, so its sum is over the same products.
                advantages = outcomes[state] - values[state]
                force = clipped[state] * advantages
                value_steps[state] += share * reached[state] * force.sum()
                logit_steps[state] += share * reached[state] * (force - policies[state] * force.sum())
            if behaviour is policies:
                for state in (0, 1):
                    pi = policies[state]
                    slope = -pi * (np.log(pi) - (pi * np.log(pi)).sum())
                    logit_steps[state] += share * reached[state] * entropy_cost * slope
        values += learning.critic_rate * value_steps
        for row, step in zip(logits, logit_steps, strict=True):
            row += policy_rate * step
    first, second = (_softmax(row) for row in logits)
    return float(first[0] * SAFE + first[1] * second[0])


def _kl(pi: np.ndarray, mu: np.ndarray) -> torch.Tensor:
    pi_logits, mu_logits = (torch.from_numpy(np.log(policy)).reshape(1, 1, -1) for policy in (pi, mu))
    return implied_policy_kl(pi_logits, mu_logits, 1.0)


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few updates: does the script work?")
    options = parser.parse_args()
    torch.set_num_threads(1)
    numbers = bandit()
    returns = {learning.label: learn_tree(learning, 50 if options.quick else 6_000) for learning in LEARNINGS}
    conclusions = [
        f"bandit: clipped values {numbers['clipped_values']} prefer the worse arm; more than "
        f"{numbers['fresh_share_that_turns_the_preference']:.3g} fresh turns that round",
        "bandit: gradient ascent ends at p(best) "
        + ", ".join(f"{p:.3f} with {alpha} fresh" for alpha, p in numbers["ascent_ends_at_p_best"].items()),
        *(f"tree: {label}: {value:.3f}" for label, value in returns.items()),
    ]
    measure.save("claims/bandit_and_tree", vars(options), {"bandit": numbers, "tree": returns}, conclusions)


if __name__ == "__main__":
    main()
