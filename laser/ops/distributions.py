"""Policies as functions of their statistics: one small class per kind of action.

A policy's statistics are a dict of tensors, `{"logits"}` or `{"mean", "std"}`: networks compute them, actors store them
as mu, and losses compare them. The classes hold no tensors, only the interpretation of the statistics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from laser.ops.taken import taken
from laser.ops.trust_region import (
    implied_policy_kl,
    implied_policy_kl_gaussian,
    implied_policy_kl_multi,
    implied_policy_kl_sampled,
)
from laser.specs import ActionSpec, ContinuousActions, DiscreteActions, MultiDiscreteActions

Statistics = Mapping[str, Tensor]

# Above this many joint actions, the implied KL of several choices is estimated instead of enumerated.
MAX_ENUMERATED_ACTIONS = 256

_LOG_2PI = math.log(2.0 * math.pi)


class Distribution(Protocol):
    """Operations on a policy. Statistics are `[..., size]`; actions and results share their leading axes."""

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each statistic per state, by name."""

    def log_prob(self, statistics: Statistics, actions: Tensor) -> Tensor:
        """Return log p(action) [...], a log density for continuous actions."""

    def log_prob_and_entropy(self, statistics: Statistics, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p(action) [...] and the entropy [...] in nats, with shared computation."""

    def sample(self, statistics: Statistics, generator: Generator | None) -> Tensor:
        """Draw one action per state; None uses torch's global generator."""

    def mode(self, statistics: Statistics) -> Tensor:
        """Return the most probable action of each state."""

    def kl(self, p: Statistics, q: Statistics) -> Tensor:
        """Return KL(p || q) [...] in nats; infinite where q excludes an action that p allows."""

    def noise_shape(self, num_samples: int) -> tuple[int, ...] | None:
        """Shape of the noise that `implied_kl` needs, or None where it is exact."""

    def draw_noise(self, num_samples: int, like: Tensor, generator: Generator | None) -> Tensor | None:
        """Draw the noise that `implied_kl` needs, with the dtype and device of `like`."""

    def implied_kl(self, pi: Statistics, mu: Statistics, rho_clip: float, noise: Tensor | None) -> Tensor:
        """Return KL(pi || pi~mu) [...]; see `laser.ops.trust_region`."""


@dataclass(frozen=True)
class Categorical:
    """One choice: `{"logits": [..., num_actions]}`, actions int64 [...]. Logits may be -inf."""

    num_actions: int

    @property
    def sizes(self) -> dict[str, int]:
        """See `Distribution.sizes`."""
        return {"logits": self.num_actions}

    def log_prob(self, statistics: Statistics, actions: Tensor) -> Tensor:
        """See `Distribution.log_prob`."""
        return taken(statistics["logits"].log_softmax(-1), actions)

    def log_prob_and_entropy(self, statistics: Statistics, actions: Tensor) -> tuple[Tensor, Tensor]:
        """See `Distribution.log_prob_and_entropy`."""
        log_probs = statistics["logits"].log_softmax(-1)
        return taken(log_probs, actions), _entropy(log_probs)

    def sample(self, statistics: Statistics, generator: Generator | None) -> Tensor:
        """See `Distribution.sample`."""
        return _draw(statistics["logits"], generator)

    def mode(self, statistics: Statistics) -> Tensor:
        """See `Distribution.mode`."""
        return statistics["logits"].argmax(-1)

    def kl(self, p: Statistics, q: Statistics) -> Tensor:
        """See `Distribution.kl`."""
        return _categorical_kl(p["logits"], q["logits"])

    def noise_shape(self, num_samples: int) -> None:
        """None: the sum over actions is exact."""
        return

    def draw_noise(self, num_samples: int, like: Tensor, generator: Generator | None) -> None:
        """None: the sum over actions is exact."""
        return

    def implied_kl(self, pi: Statistics, mu: Statistics, rho_clip: float, noise: Tensor | None) -> Tensor:
        """See `Distribution.implied_kl`."""
        return implied_policy_kl(pi["logits"], mu["logits"], rho_clip)


@dataclass(frozen=True)
class MultiCategorical:
    """Several independent choices: `{"logits": [..., sum(num_actions)]}`, actions int64 [..., len(num_actions)]."""

    num_actions: tuple[int, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """See `Distribution.sizes`."""
        return {"logits": sum(self.num_actions)}

    def log_prob(self, statistics: Statistics, actions: Tensor) -> Tensor:
        """See `Distribution.log_prob`."""
        return self.log_prob_and_entropy(statistics, actions)[0]

    def log_prob_and_entropy(self, statistics: Statistics, actions: Tensor) -> tuple[Tensor, Tensor]:
        """See `Distribution.log_prob_and_entropy`."""
        log_probs = [logits.log_softmax(-1) for logits in self._split(statistics)]
        chosen = [taken(part, actions[..., i]) for i, part in enumerate(log_probs)]
        return torch.stack(chosen).sum(0), torch.stack([_entropy(part) for part in log_probs]).sum(0)

    def sample(self, statistics: Statistics, generator: Generator | None) -> Tensor:
        """See `Distribution.sample`."""
        return torch.stack([_draw(logits, generator) for logits in self._split(statistics)], -1)

    def mode(self, statistics: Statistics) -> Tensor:
        """See `Distribution.mode`."""
        return torch.stack([logits.argmax(-1) for logits in self._split(statistics)], -1)

    def kl(self, p: Statistics, q: Statistics) -> Tensor:
        """See `Distribution.kl`."""
        parts = zip(self._split(p), self._split(q), strict=True)
        return torch.stack([_categorical_kl(p_logits, q_logits) for p_logits, q_logits in parts]).sum(0)

    def noise_shape(self, num_samples: int) -> tuple[int, ...] | None:
        """See `Distribution.noise_shape`."""
        if math.prod(self.num_actions) <= MAX_ENUMERATED_ACTIONS:
            return None
        return (num_samples, sum(self.num_actions))

    def draw_noise(self, num_samples: int, like: Tensor, generator: Generator | None) -> Tensor | None:
        """Gumbel noise: adding it to the logits and taking the largest draws an action."""
        shape = self.noise_shape(num_samples)
        if shape is None:
            return None
        return -_exponential(shape, like, generator).log()

    def implied_kl(self, pi: Statistics, mu: Statistics, rho_clip: float, noise: Tensor | None) -> Tensor:
        """See `Distribution.implied_kl`."""
        if noise is None:
            return implied_policy_kl_multi(pi["logits"], mu["logits"], self.num_actions, rho_clip)
        log_ratios = []
        noises = torch.split(noise, list(self.num_actions), -1)
        for pi_logits, mu_logits, part in zip(self._split(pi), self._split(mu), noises, strict=True):
            log_pi, log_mu = pi_logits.log_softmax(-1), mu_logits.log_softmax(-1)
            drawn = (log_pi + part.view(len(part), *(1,) * (log_pi.ndim - 1), -1)).argmax(-1)
            differences = (log_pi - log_mu).expand(len(part), *log_pi.shape)
            log_ratios.append(taken(differences, drawn))
        return implied_policy_kl_sampled(torch.stack(log_ratios).sum(0), rho_clip)

    def _split(self, statistics: Statistics) -> tuple[Tensor, ...]:
        return torch.split(statistics["logits"], list(self.num_actions), -1)


@dataclass(frozen=True)
class DiagonalGaussian:
    """Independent normals: `{"mean": [..., d], "std": [..., d]}`, actions [..., d]; not squashed, not clipped."""

    num_dimensions: int

    @property
    def sizes(self) -> dict[str, int]:
        """See `Distribution.sizes`."""
        return {"mean": self.num_dimensions, "std": self.num_dimensions}

    def log_prob(self, statistics: Statistics, actions: Tensor) -> Tensor:
        """See `Distribution.log_prob`."""
        standard = (actions - statistics["mean"]) / statistics["std"]
        exponents = 0.5 * standard.square() + statistics["std"].log()
        return -exponents.sum(-1) - 0.5 * self.num_dimensions * _LOG_2PI

    def log_prob_and_entropy(self, statistics: Statistics, actions: Tensor) -> tuple[Tensor, Tensor]:
        """See `Distribution.log_prob_and_entropy`."""
        entropy = statistics["std"].log().sum(-1) + 0.5 * self.num_dimensions * (1.0 + _LOG_2PI)
        return self.log_prob(statistics, actions), entropy

    def sample(self, statistics: Statistics, generator: Generator | None) -> Tensor:
        """See `Distribution.sample`."""
        return torch.addcmul(
            statistics["mean"],
            statistics["std"],
            normal_like(statistics["mean"], generator),
        )

    def mode(self, statistics: Statistics) -> Tensor:
        """See `Distribution.mode`."""
        return statistics["mean"]

    def kl(self, p: Statistics, q: Statistics) -> Tensor:
        """See `Distribution.kl`."""
        ratio = p["std"] / q["std"]
        shift = (p["mean"] - q["mean"]) / q["std"]
        return (0.5 * (ratio.square() + shift.square() - 1.0) - ratio.log()).sum(-1)

    def noise_shape(self, num_samples: int) -> tuple[int, ...]:
        """See `Distribution.noise_shape`."""
        return (num_samples, self.num_dimensions)

    def draw_noise(self, num_samples: int, like: Tensor, generator: Generator | None) -> Tensor:
        """Standard normal noise in pairs of opposite sign, which halves the draws and cancels odd errors."""
        half = normal_like(like, generator, self.noise_shape((num_samples + 1) // 2))
        return torch.cat([half, -half])[:num_samples]

    def implied_kl(self, pi: Statistics, mu: Statistics, rho_clip: float, noise: Tensor | None) -> Tensor:
        """See `Distribution.implied_kl`."""
        assert noise is not None, "Gaussians need noise from draw_noise"
        return implied_policy_kl_gaussian(pi["mean"], pi["std"], mu["mean"], mu["std"], rho_clip, noise)


def distribution_for(actions: ActionSpec) -> Distribution:
    """Return the policy distribution of an action space."""
    match actions:
        case DiscreteActions():
            return Categorical(actions.num_actions)
        case MultiDiscreteActions():
            return MultiCategorical(actions.num_actions)
        case ContinuousActions():
            return DiagonalGaussian(len(actions.low))


def _entropy(log_probs: Tensor) -> Tensor:
    # The clamp makes an excluded action 0 * (-large) = 0, in the gradient as well; p log p at -inf would be NaN.
    return -(log_probs.exp() * log_probs.clamp(min=torch.finfo(log_probs.dtype).min)).sum(-1)


def _categorical_kl(p_logits: Tensor, q_logits: Tensor) -> Tensor:
    log_p, log_q = p_logits.log_softmax(-1), q_logits.log_softmax(-1)
    allowed = log_p > -math.inf
    # An action that p allows and q excludes makes the whole infinite, even where p(a) underflows to 0.
    excluded = allowed & (log_q == -math.inf)
    terms = torch.where(allowed & ~excluded, log_p.exp() * (log_p - log_q), 0.0)
    return torch.where(excluded.any(-1), math.inf, terms.sum(-1)).clamp(min=0.0)


def _draw(logits: Tensor, generator: Generator | None) -> Tensor:
    # The first of independent exponential clocks with rates p(a) rings for a with probability p(a).
    return (logits.softmax(-1) / _exponential(logits.shape, logits, generator)).argmax(-1)


def _exponential(shape: tuple[int, ...], like: Tensor, generator: Generator | None) -> Tensor:
    drawn = torch.empty(shape, dtype=like.dtype, device=generator.device if generator is not None else like.device)
    # Away from 0, where 0 / 0 would choose an action of probability 0.
    return drawn.exponential_(generator=generator).clamp_(min=torch.finfo(like.dtype).tiny).to(like.device)


def normal_like(like: Tensor, generator: Generator | None, shape: tuple[int, ...] | None = None) -> Tensor:
    """Return standard normal numbers with the dtype and device of `like`.

    Args:
        like: a tensor.
        generator: source of randomness; None uses torch's global one.
        shape: shape of the numbers; None: that of `like`.
    """
    device = generator.device if generator is not None else like.device
    shape = tuple(like.shape) if shape is None else shape
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=device).to(like.device)
