"""ReF-ER as part of any off-policy algorithm: settings, column of ratios, beta and c_max, and the mixed loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from laser.algorithms.base import Fraction, NotNegative
from laser.config import Bounds, Problem
from laser.ops.refer import annealed, c_max_at, near_policy, next_beta, refer_terms
from laser.ports import ColumnSpec

RATIO = "rho"

# Stored and used ratios stay within exp(+-7), as in the authors' code.
MAX_LOG_RATIO = 7.0


@dataclass(frozen=True)
class ReferConfig:
    """Remember-and-forget experience replay; the paper's values where it gives one.

    The third rule, removing the episode furthest from the policy first, is `replay.remover far_policy`.
    """

    enabled: Annotated[bool, "learn from near-policy steps only, pulled towards the behaviour; false: plain replay"] = (
        True
    )
    c: Annotated[float, Bounds(least=1e-3, most=1000.0), "C: ratios are near within 1 + C of 1, at the start"] = 4.0
    tolerance: Annotated[
        float, Bounds(above=0.0, below=1.0), "D: the fraction of stored steps that may be far-policy"
    ] = 0.1
    annealing: Annotated[
        float, NotNegative, "C and the step size are divided by 1 + this times the learner steps; 0 keeps them"
    ] = 5e-7
    initial_beta: Annotated[
        float, Fraction, "weight of the gradient against the pull at the start; the paper's code starts near 0"
    ] = 1e-4
    beta_rate: Annotated[float, Bounds(above=0.0, most=1.0), "how far one learner step moves that weight"] = 1e-4
    anneal_beta_rate: Annotated[
        bool, "divide beta-rate as C is divided, as the paper prints it; false: constant, as the authors' code has it"
    ] = False
    recount_interval: Annotated[
        int, Bounds(least=1), "learner steps between two recounts of far-policy steps, as C is annealed"
    ] = 1000

    def warnings(self, remover: str) -> list[Problem]:
        """Return settings that do not fit the replay's remover."""
        if not self.enabled or remover == "far_policy":
            return []
        wrong = f"{remover} does not remove first the episode furthest from the policy, ReF-ER's third rule"
        return [Problem("replay.remover", wrong, "use far_policy")]


class ReferState(nn.Module):
    """Beta and c_max: buffers of the networks, so that they are saved and copied with them.

    Args:
        config: settings with their initial values.
    """

    beta: Tensor
    c_max: Tensor

    def __init__(self, config: ReferConfig):
        super().__init__()
        self.register_buffer("beta", torch.tensor(config.initial_beta if config.enabled else 1.0))
        self.register_buffer("c_max", torch.tensor(c_max_at(0, config.c, config.annealing)))


class Refer:
    """The computations of ReF-ER, for an algorithm whose networks have a `ReferState` called `refer`.

    Args:
        config: settings. Without `enabled`, far-policy steps are counted but learned from like the others.
    """

    def __init__(self, config: ReferConfig):
        self.config = config
        self._is_sent = False
        self.column = ColumnSpec(RATIO, initial=1.0, far_bound=c_max_at(0, config.c, config.annealing))

    def observe(self, state: ReferState, statistics: Mapping[str, Any], num_updates: int) -> dict[str, Tensor]:
        """Return the state's next values, by their names in the networks; see `Algorithm.observe`."""
        config = self.config
        updates = {"refer.c_max": torch.full_like(state.c_max, c_max_at(num_updates, config.c, config.annealing))}
        if config.enabled and num_updates:
            # Computed on beta's device: a copy to the host would wait for the GPU.
            rate = config.beta_rate
            if config.anneal_beta_rate:
                rate = annealed(rate, num_updates, config.annealing)
            beta = next_beta(state.beta.double(), stored_far_fraction(statistics), config.tolerance, rate)
            updates["refer.beta"] = beta.float()
        return updates

    def far_bounds(self, num_updates: int) -> dict[str, float]:
        """Return the bound by which the replay counts from this update on; it is sent at intervals.

        It is also sent at the first update after a start, since a resumed run may have a new replay. The bound is then
        the one that was due last, which a restored replay has already.
        """
        since_due = num_updates % self.config.recount_interval
        if since_due and self._is_sent:
            return {}
        self._is_sent = True
        return {RATIO: c_max_at(num_updates - since_due, self.config.c, self.config.annealing)}

    def rate_factor(self, num_updates: int) -> float:
        """Return the factor of the step size; plain replay does not anneal."""
        return annealed(1.0, num_updates, self.config.annealing) if self.config.enabled else 1.0

    def near(self, state: ReferState, log_rhos: Tensor) -> Tensor:
        """Return which steps are near-policy, bool [...]; all, without ReF-ER."""
        if not self.config.enabled:
            return torch.ones_like(log_rhos, dtype=torch.bool)
        return near_policy(log_rhos, state.c_max)

    def terms(self, state: ReferState, losses: Tensor, kls: Tensor, near: Tensor) -> Tensor:
        """Return the term of each step in the loss, [...]; see `refer_terms`."""
        return refer_terms(losses, kls, near, state.beta) if self.config.enabled else losses


def stored_far_fraction(statistics: Mapping[str, Any]) -> float:
    """Return the fraction of stored steps that are far-policy, by their most recent ratios; beta keeps it at D.

    Args:
        statistics: `Sample.statistics` of a replay that counts far-policy steps.
    """
    return float(statistics[f"num_far/{RATIO}"]) / max(1.0, float(statistics["num_steps"]))


@torch.no_grad()
def bounded_rhos(log_rhos: Tensor) -> Tensor:
    """Return importance ratios within exp(+-7), finite for any log ratios."""
    return log_rhos.nan_to_num(-MAX_LOG_RATIO).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
