"""ACER for continuous actions: a stochastic dueling critic, Retrace for it and Q-opc for the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from laser.algorithms.acer import Acer, AcerConfig
from laser.algorithms.base import Fraction, LossOutput, NotNegative, Schedule, live
from laser.algorithms.metrics import explained_variance
from laser.batch import Batch
from laser.config import Bounds
from laser.networks.actor_critic import ActorCritic, ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.networks.heads import AdvantageHead
from laser.ops.distributions import Statistics
from laser.ops.policy_gradient import value_loss, weighted_sum
from laser.ops.retrace import retrace_targets
from laser.ops.stochastic_dueling import stochastic_dueling
from laser.ops.truncation_correction import correction, gaussian_log_prob_gradient, truncated
from laser.ops.trust_region_projection import gaussian_kl_gradient, project_to_trust_region
from laser.specs import ActionSpec, ContinuousActions, EnvironmentSpec


@dataclass(frozen=True)
class AcerContinuousConfig(AcerConfig):
    """Settings of continuous ACER; defaults are the paper's, which learns from the replay alone."""

    name: ClassVar[str] = "acer_continuous"

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 3e-4
    replay_fraction: Annotated[float, Fraction, "share of each batch that is drawn from the replay"] = 1.0
    replay_ratio: Annotated[
        float, NotNegative, "batches from the replay that follow each fresh one: the mean of a Poisson number"
    ] = 0.0
    truncation: Annotated[
        float, Bounds(least=1.0, allow_infinite=True), "c, bound on importance ratios in the policy gradient"
    ] = 5.0
    average_rate: Annotated[
        float, Bounds(above=0.0, most=1.0), "share of the way that the average policy goes with each update"
    ] = 0.005
    entropy_cost: Annotated[float, NotNegative, "weight of the entropy, in nats; with a learned deviation"] = 0.0
    std: Annotated[
        Literal["fixed", "learned"],
        "the policy's standard deviation: fixed at network.initial-std, or learned from there",
    ] = "fixed"
    num_samples: Annotated[int, Bounds(least=1), "n, actions of the policy that the advantage is centred with"] = 5
    advantage_size: Annotated[int, Bounds(least=1), "width of the advantage's hidden layer"] = 64

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> AcerContinuous:
        """See `AlgorithmConfig.build`."""
        return AcerContinuous(self, environment, network)


class AcerContinuous(Acer):
    """ACER with a Gaussian policy.

        Q~(s, a)  = V(s) + A(s, a) - 1/n sum_i A(s, u_i)                  u_i ~ pi
        loss      = -z . phi + critic_cost / 2 [(Q^ret - Q~(a))^2 + (V^target - V)^2]
        V^target  = V + min(1, rho) (Q^ret - Q~(a))

    phi is the mean, and the deviation where that is learned; z is projected over both at once. Retrace's traces are
    min(1, rho^(1/d)) in d dimensions. The policy's advantage is Q^opc - V, with all traces 1; at the fresh action a' of
    the truncation's correction it is Q~(a') - V.

    With n = 5 there are 9 evaluations per row, in three calls: networks, average policy, and A of the action taken, of
    a' and of the u_i, which both Q~ share.

    Source:
        Wang et al. 2017 (ACER), section 5 and algorithm 3.
    """

    config: AcerContinuousConfig
    action_kind: ClassVar[type[ActionSpec]] = ContinuousActions

    def _add_heads(self, networks: ActorCritic) -> None:
        """Add an advantage head beside the state value."""
        size, activation = self.config.advantage_size, self.network.activation
        num_dimensions = self.environment.actions.array.size
        networks.advantage_head = AdvantageHead(networks.num_critic_features, num_dimensions, size, activation)

    def state_values(self, values: Tensor, policy: Statistics) -> Tensor:
        """See `ActorCriticAlgorithm.state_values`."""
        return values

    def _loss(
        self,
        networks: Any,
        output: ActorCriticOutput,
        average: Statistics,
        batch: Batch,
        schedule: Schedule,
        generator: Generator | None,
    ) -> LossOutput:
        config, distribution = self.config, self.distribution
        entropy_cost = live("entropy_cost", config, schedule)
        policy = {name: value[:-1] for name, value in output.policy.items()}
        if config.std == "fixed":
            policy["std"] = policy["std"].detach()
        moving = {name: value.detach() for name, value in policy.items()}
        values, actions = output.values[:-1], batch.actions
        assert output.critic_features is not None

        several = {name: value.expand(1 + config.num_samples, *value.shape) for name, value in moving.items()}
        drawn = distribution.sample(several, generator)  # a', u_1, ..., u_n
        advantages = networks.advantage_head(output.critic_features[:-1], torch.cat([actions.unsqueeze(0), drawn]))
        q_taken, q_drawn = stochastic_dueling(values, advantages[:2], advantages[2:]).unbind(0)

        with torch.no_grad():
            log_pi = distribution.log_prob(moving, actions)
            log_rhos = log_pi - distribution.log_prob(batch.mu, actions)
            drawn_log_rhos = distribution.log_prob(moving, drawn[0]) - distribution.log_prob(batch.mu, drawn[0])
            rows = (self.config.learned_from(batch.rewards), batch.discounts)
            q_retrace = retrace_targets(
                q_taken,
                output.values[1:],
                log_rhos / actions.shape[-1],
                *rows,
                lambda_=config.trace_lambda,
                valid=batch.valid,
            )
            q_opc = retrace_targets(q_taken, output.values[1:], torch.zeros_like(log_rhos), *rows, valid=batch.valid)
            value_targets = values + truncated(log_rhos, 1.0) * (q_retrace - q_taken)

            weight = (truncated(log_rhos, config.truncation) * (q_opc - values)).unsqueeze(-1)
            drawn_weight = (correction(drawn_log_rhos, config.truncation) * (q_drawn - values)).unsqueeze(-1)
            towards, towards_drawn = (gaussian_log_prob_gradient(moving, each) for each in (actions, drawn[0]))
            names = ["mean"] if config.std == "fixed" else ["mean", "std"]
            parts = {name: weight * towards[name] + drawn_weight * towards_drawn[name] for name in names}
            if config.entropy_in_trust_region and "std" in parts:  # d H / d phi
                parts["std"] = parts["std"] + entropy_cost / moving["std"]
            gradient = torch.cat(list(parts.values()), -1)
            of_divergence = gaussian_kl_gradient(average, moving)
            kl_gradient = torch.cat([of_divergence[name] for name in names], -1)
            projected = project_to_trust_region(gradient, kl_gradient, live("trust_region", config, schedule))
            moved = (projected != gradient).any(-1).float()
            projected = torch.where(batch.valid.unsqueeze(-1), projected, 0.0)

        entropies = distribution.log_prob_and_entropy(policy, actions)[1]
        weights = self._weights(batch)
        statistics = torch.cat([policy[name] for name in names], -1)
        policy_term = -weighted_sum((projected * statistics).sum(-1), weights)
        if not config.entropy_in_trust_region:
            policy_term = policy_term - entropy_cost * weighted_sum(entropies, weights)
        q_term, value_term = value_loss(q_taken, q_retrace, weights), value_loss(values, value_targets, weights)
        loss = policy_term + live("critic_cost", config, schedule) * (q_term + value_term)
        metrics = {
            "loss": loss.detach(),
            "critic_loss": q_term.detach(),
            "value_loss": value_term.detach(),
            **self._metrics(batch, average, output.policy, log_rhos, entropies.detach(), values.detach(), moved),
            "explained_variance": explained_variance(q_taken.detach(), q_retrace, batch.valid),
        }
        return LossOutput(loss, metrics)
