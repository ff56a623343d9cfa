"""ACER: action values by Retrace, and a policy gradient kept inside a trust region; for one discrete choice."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.actions import check_actions
from laser.algorithms.actor_critic import ActorCriticAlgorithm, next_core_state
from laser.algorithms.base import AlgorithmConfig, Fraction, LossOutput, NotNegative, Schedule, Target, Targets, live
from laser.algorithms.metrics import explained_variance, means, means_by_source
from laser.algorithms.rewards import RewardConfig
from laser.batch import Batch
from laser.config import Bounds, Problem
from laser.networks.actor_critic import ActorCritic, ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.networks.heads import POLICY_GAIN, PreciseLinear
from laser.networks.mlp import orthogonal
from laser.ops.distributions import Categorical, Statistics
from laser.ops.policy_gradient import value_loss, weighted_sum
from laser.ops.retrace import retrace_targets
from laser.ops.taken import taken
from laser.ops.truncation_correction import categorical_gradient
from laser.ops.trust_region_projection import categorical_kl_gradient, project_to_trust_region
from laser.specs import ActionSpec, DiscreteActions, EnvironmentSpec

AVERAGE = "average"


@dataclass(frozen=True)
class AcerConfig(RewardConfig):
    """ACER's settings; defaults are the paper's on Atari, or else those of its published code."""

    name: ClassVar[str] = "acer"
    live_settings: ClassVar[tuple[str, ...]] = (
        *AlgorithmConfig.live_settings,
        "entropy_cost",
        "critic_cost",
        "trust_region",
    )

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 7e-4
    optimizer_epsilon: Annotated[float, Bounds(above=0.0), "added to the root of the second moment"] = 1e-5
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = 10.0
    batch_size: Annotated[int, Bounds(least=1), "unrolls per learner step"] = 16
    replay_ratio: Annotated[
        float, NotNegative, "batches from the replay that follow each fresh one: the mean of a Poisson number"
    ] = 4.0
    truncation: Annotated[
        float, Bounds(least=1.0, allow_infinite=True), "c, bound on importance ratios in the policy gradient"
    ] = 10.0
    trust_region: Annotated[
        float,
        Bounds(above=0.0, allow_infinite=True),
        "delta, how fast a step may move the policy from its average; inf: no trust region",
    ] = 1.0
    average_rate: Annotated[
        float, Bounds(above=0.0, most=1.0), "share of the way that the average policy moves per update"
    ] = 0.01
    trace_lambda: Annotated[float, Fraction, "shortens the traces of Retrace"] = 1.0
    critic_cost: Annotated[float, NotNegative, "weight of the critic's loss, which is half the squared error"] = 0.5
    entropy_cost: Annotated[float, NotNegative, "weight of the policy's entropy, in nats"] = 0.001
    entropy_in_trust_region: Annotated[
        bool, "add the entropy's gradient to the policy's before the projection, not after"
    ] = True

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Acer:
        """See `AlgorithmConfig.build`."""
        return Acer(self, environment, network)

    @property
    def replays_per_batch(self) -> float:
        """See `AlgorithmConfig.replays_per_batch`."""
        return self.replay_ratio

    def problems(self) -> list[Problem]:
        """Return mistakes that join several fields."""
        if self.replay_ratio and self.replay_fraction:
            wrong = f"must be 0 beside replay-ratio {self.replay_ratio:g}, which replays whole batches"
            remedy = "leave it out, or use replay-ratio 0"
            return [Problem("replay-fraction", f"{wrong}, got {self.replay_fraction:g}", remedy)]
        return []


class Acer(ActorCriticAlgorithm):
    """Fresh and replayed batches go through one loss; fresh ones are those whose ratios are 1.

        loss = -z . phi + critic_cost / 2 (Q^ret - Q(a))^2      z held fixed, phi the policy's probabilities

    where z is the policy gradient with truncation and bias correction (`laser.ops.truncation_correction`) with respect
    to phi, projected (`laser.ops.trust_region_projection`) before anything is averaged. Sums are means over rows.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.

    Raises:
        ValueError: the actions are not discrete choices, or the network is a user's own.

    Source:
        Wang et al. 2017 (ACER), algorithms 1 and 2.
    """

    config: AcerConfig
    action_kind: ClassVar[type[ActionSpec]] = DiscreteActions

    def __init__(self, config: AcerConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        check_actions(config.name, self.action_kind, environment)
        if type(network).make is not NetworkConfig.make:
            raise ValueError(
                f"network: {config.name} puts heads of its own on LASER's networks, got {type(network).__name__}; "
                "leave it out, or use laser"
            )
        # Also without a trust region, since its threshold may change while training.
        self.targets = {AVERAGE: Target(config.average_rate)}

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        networks = cast(ActorCritic, super().make_networks())
        self._add_heads(networks)
        return networks

    def _add_heads(self, networks: ActorCritic) -> None:
        """Replace the value head by one with a value per action."""
        num_actions = cast(DiscreteActions, self.environment.actions).num_actions
        # Small, so that no action is preferred before learning.
        networks.value_head = orthogonal(PreciseLinear(networks.num_critic_features, num_actions), POLICY_GAIN)

    def state_values(self, values: Tensor, policy: Statistics) -> Tensor:
        """See `ActorCriticAlgorithm.state_values`."""
        return (policy["logits"].softmax(-1) * values).sum(-1)

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`."""
        output = self.evaluate(networks, batch)
        with torch.no_grad():
            policy = self.evaluate(targets[AVERAGE], batch).policy
            average = {name: value[:-1] for name, value in policy.items()}
        with torch.autocast(batch.rewards.device.type, enabled=False):
            loss = self._loss(networks, output, average, batch, schedule, generator)
        return dataclasses.replace(loss, core_state=next_core_state(output))

    def _loss(
        self,
        networks: nn.Module,
        output: ActorCriticOutput,
        average: Statistics,
        batch: Batch,
        schedule: Schedule,
        generator: Generator | None,
    ) -> LossOutput:
        config = self.config
        entropy_cost = live("entropy_cost", config, schedule)
        all_log_probs = output.policy["logits"].log_softmax(-1)
        log_probs, action_values = all_log_probs[:-1], output.values[:-1]
        probs = log_probs.exp()
        q_taken = taken(action_values, batch.actions)
        with torch.no_grad():
            all_values = (all_log_probs.exp() * output.values).sum(-1)
            values = all_values[:-1]
            mu_log_probs = batch.mu["logits"].log_softmax(-1)
            log_rhos = taken(log_probs - mu_log_probs, batch.actions)
            q_retrace = retrace_targets(
                q_taken,
                all_values[1:],
                log_rhos,
                self.config.learned_from(batch.rewards),
                batch.discounts,
                lambda_=config.trace_lambda,
                valid=batch.valid,
            )
            gradient = categorical_gradient(
                log_probs,
                mu_log_probs,
                batch.actions,
                q_retrace - values,
                action_values - values.unsqueeze(-1),
                config.truncation,
            )
            if config.entropy_in_trust_region:  # d H / d phi
                gradient = gradient - entropy_cost * (log_probs + 1.0)
            kl_gradient = categorical_kl_gradient(average["logits"].softmax(-1), probs)
            projected = project_to_trust_region(gradient, kl_gradient, live("trust_region", config, schedule))
            projected = torch.where(batch.valid.unsqueeze(-1), projected, 0.0)
        entropies = Categorical(probs.shape[-1]).log_prob_and_entropy({"logits": log_probs}, batch.actions)[1]
        weights = self._weights(batch)
        policy_term = -weighted_sum((projected * probs).sum(-1), weights)
        if not config.entropy_in_trust_region:
            policy_term = policy_term - entropy_cost * weighted_sum(entropies, weights)
        critic_term = value_loss(q_taken, q_retrace, weights)
        loss = policy_term + live("critic_cost", config, schedule) * critic_term
        moved = (projected != gradient).any(-1).float()
        metrics = {
            "loss": loss.detach(),
            "critic_loss": critic_term.detach(),
            **self._metrics(batch, average, output.policy, log_rhos, entropies, values, moved),
            "explained_variance": explained_variance(q_taken, q_retrace, batch.valid),
        }
        return LossOutput(loss, metrics)

    def _weights(self, batch: Batch) -> Tensor:
        """Return the weight of each row [T, B], so that sums are means over the batch's rows."""
        return batch.valid * (batch.importance_weights / batch.valid.numel())

    def _metrics(
        self,
        batch: Batch,
        average: Statistics,
        policy: Statistics,
        log_rhos: Tensor,
        entropies: Tensor,
        values: Tensor,
        moved: Tensor,
    ) -> dict[str, Tensor]:
        """Return means over valid rows.

        Args:
            batch: the rows.
            average: statistics of the average policy.
            policy: statistics of the policy, T+1 rows.
            log_rhos: [T, B].
            entropies: [T, B].
            values: [T, B].
            moved: float [T, B], 1 where the trust region changed the gradient.
        """
        with torch.no_grad():
            moved_on = self.distribution.kl(average, {name: value[:-1] for name, value in policy.items()})
        rows = {
            "entropy": entropies,
            "value_mean": values,
            "projected_fraction": moved,
            "kl_from_average": moved_on,
        }
        truncated = (log_rhos > math.log(self.config.truncation)).float()
        by_source = means_by_source(batch.source, batch.valid, abs_log_rho=log_rhos.abs(), truncated_fraction=truncated)
        return {**means(batch.valid, **rows), **by_source}
