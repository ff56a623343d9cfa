"""IMPALA: an actor-critic with V-trace targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.actor_critic import ActorCriticAlgorithm, next_core_state
from laser.algorithms.base import AlgorithmConfig, Fraction, LossOutput, NotNegative
from laser.algorithms.metrics import explained_variance, means, means_by_source
from laser.batch import Batch
from laser.config import Bounds, Problem
from laser.networks.config import NetworkConfig
from laser.ops.distributions import Statistics
from laser.ops.policy_gradient import policy_gradient_loss, value_loss, weighted_sum
from laser.ops.vtrace import vtrace_targets
from laser.specs import EnvironmentSpec

Clip = Bounds(above=0.0, allow_infinite=True)


@dataclass(frozen=True)
class ImpalaConfig(AlgorithmConfig):
    """IMPALA's settings; see the table in Espeholt et al. 2018, appendix G."""

    name: ClassVar[str] = "impala"

    entropy_cost: Annotated[float, NotNegative, "weight of the policy's entropy, in nats"] = 0.01
    baseline_cost: Annotated[float, NotNegative, "weight of the value loss, which is half the squared error"] = 0.5
    rho_clip: Annotated[float, Clip, "bound on importance ratios in value targets"] = 1.0
    c_clip: Annotated[float, Clip, "bound on importance ratios in traces; at most rho-clip"] = 1.0
    pg_rho_clip: Annotated[float, Clip, "bound on importance ratios in the policy gradient"] = 1.0
    trace_lambda: Annotated[float, Fraction, "shortens the traces; 1 for n-step targets"] = 1.0
    reward_transform: Annotated[Literal["none", "clip"], "clip: rewards are learned from as clipped to [-1, 1]"] = (
        "none"
    )
    reward_scale: Annotated[
        float,
        Bounds(above=0.0),
        "rewards are multiplied by this before they are learned from; values of about 1 let the critic keep up",
    ] = 1.0
    reduction: Annotated[
        Literal["sum", "mean_per_column"],
        "sum over rows and columns, as published; or that divided by the batch size, which then does not scale steps",
    ] = "sum"
    normalize_advantages: Annotated[
        Literal["off", "scale", "standardize"],
        "scale: divide the policy gradient's advantages by their root mean square over the batch; standardize: after "
        "subtracting their mean",
    ] = "off"

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Impala:
        """See `AlgorithmConfig.build`."""
        return Impala(self, environment, network)

    def problems(self) -> list[Problem]:
        """Return mistakes that join several fields."""
        if self.c_clip > self.rho_clip:
            return [Problem("c-clip", f"must be at most rho-clip ({self.rho_clip:g}), got {self.c_clip:g}", "lower it")]
        return []


class Impala(ActorCriticAlgorithm):
    """V-trace actor-critic for discrete, multi-discrete and Gaussian policies.

        loss = pg_loss + baseline_cost * value_loss - entropy_cost * sum of entropies

    Subclasses change which rows count: `_accept` and `_entropy_rows`.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.

    Source:
        Espeholt et al. 2018 (IMPALA), section 4.2.
    """

    config: ImpalaConfig

    def loss(
        self,
        networks: nn.Module,
        targets: Mapping[str, nn.Module],
        batch: Batch,
        schedule: Mapping[str, Any],
        generator: Generator | None,
    ) -> LossOutput:
        """See `Algorithm.loss`.

        A `generator` cannot be traced by `torch.compile`; compiled losses pass None, which uses torch's global one.
        """
        output = self.evaluate(networks, batch)
        # Ratios, targets and sums are not for bfloat16, whatever precision the networks ran in.
        with torch.autocast(batch.rewards.device.type, enabled=False):
            policy = {name: value[:-1] for name, value in output.policy.items()}
            loss = self._loss(policy, output.values, batch, generator)
        return dataclasses.replace(loss, core_state=next_core_state(output))

    def _loss(self, pi: Statistics, all_values: Tensor, batch: Batch, generator: Generator | None) -> LossOutput:
        config = self.config
        values, bootstrap_value = all_values[:-1], all_values[-1]
        log_pi, entropies = self.distribution.log_prob_and_entropy(pi, batch.actions)
        with torch.no_grad():
            log_rhos = log_pi - self.distribution.log_prob(batch.mu, batch.actions)
            accept, accept_metrics = self._accept(pi, batch, generator)
            used = batch.valid if accept is None else accept & batch.valid
            vs, pg_advantages = vtrace_targets(
                log_rhos,
                self._rewards(batch),
                batch.discounts,
                values,
                bootstrap_value,
                rho_clip=config.rho_clip,
                c_clip=config.c_clip,
                pg_rho_clip=config.pg_rho_clip,
                lambda_=config.trace_lambda,
                accept=accept,
                valid=batch.valid,
            )
            # One weight per row holds the masks, the sampler's correction and the reduction.
            column_weights = batch.importance_weights
            if config.reduction == "mean_per_column":
                column_weights = column_weights / len(column_weights)
            weights = used * column_weights
            if config.normalize_advantages == "standardize":
                # A critic that is off everywhere would push all taken actions the same way. Unused rows add 0.
                mean = pg_advantages.sum() / used.sum().clamp(min=1)
                pg_advantages = torch.where(used, pg_advantages - mean, 0.0)
            if config.normalize_advantages != "off":
                pg_advantages = _over_root_mean_square(pg_advantages, used)

        pg_term = policy_gradient_loss(log_pi, pg_advantages, weights)
        value_term = value_loss(values, vs, weights)
        entropy_term = weighted_sum(entropies, self._entropy_rows(batch) * column_weights)
        loss = pg_term + config.baseline_cost * value_term - config.entropy_cost * entropy_term

        metrics = {
            "loss": loss.detach(),
            "pg_loss": pg_term.detach(),
            "value_loss": value_term.detach(),
            **means(batch.valid, entropy=entropies, value_mean=values),
            "explained_variance": explained_variance(values, vs, used),
            **accept_metrics,
            **means_by_source(batch.source, batch.valid, accept_fraction=used.float(), abs_log_rho=log_rhos.abs()),
        }
        return LossOutput(loss, metrics)

    def _rewards(self, batch: Batch) -> Tensor:
        rewards = batch.rewards.clamp(-1.0, 1.0) if self.config.reward_transform == "clip" else batch.rewards
        return rewards * self.config.reward_scale

    def _accept(
        self, pi: Statistics, batch: Batch, generator: Generator | None
    ) -> tuple[Tensor | None, dict[str, Tensor]]:
        """Return which rows to learn from, bool [T, B] or None for all, and metrics about it."""
        return None, {}

    def _entropy_rows(self, batch: Batch) -> Tensor:
        """Return whose entropy counts, bool [T, B]."""
        return batch.valid


def _over_root_mean_square(advantages: Tensor, used: Tensor) -> Tensor:
    # Unused rows are 0 in the sum.
    mean_square = advantages.square().sum() / used.sum().clamp(min=1)
    return advantages / (mean_square.sqrt() + 1e-8)
