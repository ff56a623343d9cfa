"""ACER for continuous actions: a stochastic dueling critic, Retrace for it and Q-opc for the policy.

Its parts can be left out one by one, for the paper's ablations and baselines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from laser.algorithms.acer import Acer, AcerConfig
from laser.algorithms.base import Fraction, LossOutput, NotNegative, ParameterGroup, Schedule, live
from laser.algorithms.metrics import explained_variance, means
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.actor_critic import ActorCritic, ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import AdvantageHead
from laser.ops.distributions import Statistics
from laser.ops.policy_gradient import value_loss, weighted_sum
from laser.ops.retrace import retrace_targets
from laser.ops.stochastic_dueling import stochastic_dueling
from laser.ops.truncation_correction import correction, gaussian_log_prob_gradient, truncated
from laser.ops.trust_region_projection import gaussian_kl_gradient, project_to_trust_region
from laser.ops.vtrace import vtrace_targets
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
    critic_cost: Annotated[float, NotNegative, "weight of the critic's losses, each half a squared error"] = 1.0
    critic: Annotated[
        Literal["stochastic_dueling", "not_centred", "state_value"],
        "what estimates action values: V + A centred under the policy (the paper's), V + A as it is, or none: V alone, "
        "with V-trace targets and no correction of what is truncated, as A3C and truncated importance sampling have it",
    ] = "stochastic_dueling"
    policy_target: Annotated[
        Literal["q_opc", "q_retrace"], "return in the policy gradient: with all traces 1, or the critic's own"
    ] = "q_opc"
    entropy_cost: Annotated[float, NotNegative, "weight of the entropy, in nats; with a learned deviation"] = 0.0
    std: Annotated[
        Literal["fixed", "learned"],
        "the policy's standard deviation: fixed at network.initial-std, or learned from there",
    ] = "fixed"
    num_samples: Annotated[int, Bounds(least=1), "n, actions of the policy that the advantage is centred with"] = 5
    advantage_size: Annotated[int, Bounds(least=1), "width of the advantage's hidden layer"] = 64
    critic_rate: Annotated[
        float, Bounds(above=0.0), "the critic's step size, as a multiple; with network.separate-critic"
    ] = 1.0
    separate_advantage: Annotated[
        bool, "give the advantage a torso of its own, beside those of policy and value; with network.separate-critic"
    ] = False

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        if self.critic == "state_value":
            why, remedy = "algorithm.critic is state_value", "use algorithm.critic stochastic_dueling"
            unused = ["policy_target", "num_samples", "advantage_size", "separate_advantage"]
            found += find_unused(self, "algorithm", unused, why, remedy)
        if self.critic == "not_centred":
            why, remedy = "algorithm.critic is not_centred", "use algorithm.critic stochastic_dueling"
            found += find_unused(self, "algorithm", ("num_samples",), why, remedy)
        if self.std == "fixed":
            why, remedy = "algorithm.std is fixed, and so is the entropy", "use algorithm.std learned"
            found += find_unused(self, "algorithm", ("entropy_cost", "entropy_in_trust_region"), why, remedy)
        if not network.separate_critic:
            why, remedy = "the critic shares the policy's torso and its step size", "use network.separate-critic true"
            unused = ["critic_rate"] + ["separate_advantage"] * (self.critic != "state_value")
            found += find_unused(self, "algorithm", unused, why, remedy)
        return found

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

    Without action values (`critic` is state_value), V-trace's targets take the place of Q^ret and Q^opc: the weight of
    the policy's gradient is min(c, rho) (r + disc V^trace' - V), and the critic has one loss.

    Source:
        Wang et al. 2017 (ACER), section 5 and algorithm 3; figures 3 and 4 for what can be left out.
    """

    config: AcerContinuousConfig
    action_kind: ClassVar[type[ActionSpec]] = ContinuousActions

    def __init__(self, config: AcerContinuousConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        if network.separate_critic and config.critic_rate != 1.0:
            parts = ["critic_encoder", "value_head"]
            parts += [] if config.critic == "state_value" else ["advantage_head"]
            parts += ["advantage_encoder"] if self._has_separate_advantage else []
            self.parameter_groups = tuple(ParameterGroup(f"{part}.", rate=config.critic_rate) for part in parts)

    @property
    def _has_separate_advantage(self) -> bool:
        config = self.config
        return config.separate_advantage and self.network.separate_critic and config.critic != "state_value"

    def _add_heads(self, networks: ActorCritic) -> None:
        """Add an advantage head beside the state value, unless the critic is a state value alone."""
        if self.config.critic == "state_value":
            return
        size, activation = self.config.advantage_size, self.network.activation
        num_dimensions = self.environment.actions.array.size
        networks.advantage_head = AdvantageHead(networks.num_critic_features, num_dimensions, size, activation)
        if self._has_separate_advantage:
            networks.advantage_encoder = ObservationEncoder(self.environment.observations, self.network)

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
        config = self.config
        entropy_cost = live("entropy_cost", config, schedule)
        policy = {name: value[:-1] for name, value in output.policy.items()}
        if config.std == "fixed":
            policy["std"] = policy["std"].detach()
        moving = {name: value.detach() for name, value in policy.items()}
        names = ["mean"] if config.std == "fixed" else ["mean", "std"]
        with torch.no_grad():
            log_rhos = self.distribution.log_prob(moving, batch.actions)
            log_rhos = log_rhos - self.distribution.log_prob(batch.mu, batch.actions)
        if config.critic == "state_value":
            estimated = self._of_state_values(output, moving, log_rhos, batch)
        else:
            estimated = self._of_action_values(networks, output, moving, log_rhos, batch, generator)

        with torch.no_grad():
            parts = {name: estimated.gradient[name] for name in names}
            if config.entropy_in_trust_region and "std" in parts:  # d H / d phi
                parts["std"] = parts["std"] + entropy_cost / moving["std"]
            gradient = torch.cat(list(parts.values()), -1)
            of_divergence = gaussian_kl_gradient(average, moving)
            kl_gradient = torch.cat([of_divergence[name] for name in names], -1)
            projected = project_to_trust_region(gradient, kl_gradient, live("trust_region", config, schedule))
            moved = (projected != gradient).any(-1).float()
            projected = torch.where(batch.valid.unsqueeze(-1), projected, 0.0)
            kls = self.distribution.kl(batch.mu, moving)

        entropies = self.distribution.log_prob_and_entropy(policy, batch.actions)[1]
        weights = self._weights(batch)
        statistics = torch.cat([policy[name] for name in names], -1)
        policy_term = -weighted_sum((projected * statistics).sum(-1), weights)
        if not config.entropy_in_trust_region:
            policy_term = policy_term - entropy_cost * weighted_sum(entropies, weights)
        values = output.values[:-1].detach()
        loss = policy_term + live("critic_cost", config, schedule) * sum(estimated.critic_terms.values())
        metrics = {
            "loss": loss.detach(),
            **{name: term.detach() for name, term in estimated.critic_terms.items()},
            **self._metrics(batch, average, output.policy, log_rhos, entropies.detach(), values, moved),
            **means(batch.valid, kl_from_behaviour=kls),
            "explained_variance": estimated.explained_variance,
        }
        return LossOutput(loss, metrics)

    def _of_action_values(
        self,
        networks: Any,
        output: ActorCriticOutput,
        moving: Statistics,
        log_rhos: Tensor,
        batch: Batch,
        generator: Generator | None,
    ) -> _Estimates:
        """Return the policy's gradient and the critic's losses from Q~.

        Args:
            networks: with an advantage head.
            output: of the networks, T+1 rows.
            moving: statistics of the policy without a gradient, T rows.
            log_rhos: [T, B].
            batch: the rows.
            generator: draws a' and the u_i.
        """
        config, distribution = self.config, self.distribution
        values, actions = output.values[:-1], batch.actions
        features = output.critic_features
        if self._has_separate_advantage:
            flat = {name: value.flatten(0, 1) for name, value in batch.observations.items()}
            features = networks.advantage_encoder(flat).unflatten(0, batch.first.shape)
        assert features is not None
        num_drawn = 1 + (config.num_samples if config.critic == "stochastic_dueling" else 0)
        several = {name: value.expand(num_drawn, *value.shape) for name, value in moving.items()}
        drawn = distribution.sample(several, generator)  # a', u_1, ..., u_n
        advantages = networks.advantage_head(features[:-1], torch.cat([actions.unsqueeze(0), drawn]))
        if config.critic == "stochastic_dueling":
            q_taken, q_drawn = stochastic_dueling(values, advantages[:2], advantages[2:]).unbind(0)
        else:
            q_taken, q_drawn = (values + advantages).unbind(0)

        with torch.no_grad():
            drawn_log_rhos = distribution.log_prob(moving, drawn[0]) - distribution.log_prob(batch.mu, drawn[0])
            rows = (config.learned_from(batch.rewards), batch.discounts)
            q_retrace = retrace_targets(
                q_taken,
                output.values[1:],
                log_rhos / actions.shape[-1],
                *rows,
                lambda_=config.trace_lambda,
                valid=batch.valid,
            )
            value_targets = values + truncated(log_rhos, 1.0) * (q_retrace - q_taken)
            target = q_retrace
            if config.policy_target == "q_opc":
                ones = torch.zeros_like(log_rhos)
                target = retrace_targets(q_taken, output.values[1:], ones, *rows, valid=batch.valid)
            weight = (truncated(log_rhos, config.truncation) * (target - values)).unsqueeze(-1)
            drawn_weight = (correction(drawn_log_rhos, config.truncation) * (q_drawn - values)).unsqueeze(-1)
            towards, towards_drawn = (gaussian_log_prob_gradient(moving, each) for each in (actions, drawn[0]))
            gradient = {name: weight * towards[name] + drawn_weight * towards_drawn[name] for name in towards}
        weights = self._weights(batch)
        terms = {
            "critic_loss": value_loss(q_taken, q_retrace, weights),
            "value_loss": value_loss(values, value_targets, weights),
        }
        return _Estimates(gradient, terms, explained_variance(q_taken.detach(), q_retrace, batch.valid))

    def _of_state_values(
        self, output: ActorCriticOutput, moving: Statistics, log_rhos: Tensor, batch: Batch
    ) -> _Estimates:
        """Return the policy's gradient and the critic's loss from V alone; arguments as of `_of_action_values`."""
        config = self.config
        values = output.values[:-1]
        targets = vtrace_targets(
            log_rhos,
            config.learned_from(batch.rewards),
            batch.discounts,
            values.detach(),
            output.values[-1].detach(),
            pg_rho_clip=config.truncation,
            lambda_=config.trace_lambda,
            valid=batch.valid,
        )
        with torch.no_grad():
            towards = gaussian_log_prob_gradient(moving, batch.actions)
            gradient = {name: targets.pg_advantages.unsqueeze(-1) * each for name, each in towards.items()}
        terms = {"critic_loss": value_loss(values, targets.vs, self._weights(batch))}
        return _Estimates(gradient, terms, explained_variance(values.detach(), targets.vs, batch.valid))


@dataclass(frozen=True)
class _Estimates:
    """Estimates of a critic for a batch.

    Args:
        gradient: of the expected return with respect to each statistic of the policy, [T, B, d], before the projection.
        critic_terms: the critic's losses, by the names of their metrics.
        explained_variance: of the critic's targets.
    """

    gradient: dict[str, Tensor]
    critic_terms: dict[str, Tensor]
    explained_variance: Tensor
