"""PPO: an on-policy actor-critic with several passes over each batch on a clipped objective."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.actor_critic import NORMALIZE_OBSERVATIONS, ActorCriticAlgorithm
from laser.algorithms.base import (
    AlgorithmConfig,
    Fraction,
    LossOutput,
    NotNegative,
    ParameterGroup,
    Schedule,
    Targets,
    live,
)
from laser.algorithms.metrics import explained_variance, means
from laser.batch import Batch
from laser.config import Bounds, Problem
from laser.networks.config import NetworkConfig
from laser.ops.ppo import clipped_objective, gae_targets
from laser.ops.refer import annealed
from laser.specs import EnvironmentSpec

ADVANTAGES, RETURNS = "advantages", "returns"


@dataclass(frozen=True)
class PpoConfig(AlgorithmConfig):
    """PPO's settings; defaults are those of the ReF-ER paper's baseline, as far as it gives them."""

    name: ClassVar[str] = "ppo"
    live_settings: ClassVar[tuple[str, ...]] = (*AlgorithmConfig.live_settings, "entropy_cost")

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 1e-4
    optimizer: Annotated[Literal["rmsprop", "adam"], "gradient rule"] = "adam"
    optimizer_epsilon: Annotated[float, Bounds(above=0.0), "added to the root of the second moment"] = 1e-5
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = 0.5
    discount: Annotated[float, Fraction, "gamma, per env step"] = 0.995
    batch_size: Annotated[int, Bounds(least=1), "fresh unrolls per learner step"] = 8
    gae_lambda: Annotated[float, Fraction, "shortens the advantages; 1: returns less values"] = 0.97
    clip: Annotated[float, Bounds(above=0.0), "largest rewarded deviation of the ratio from 1"] = 0.2
    num_epochs: Annotated[int, Bounds(least=1), "passes over each batch"] = 10
    num_minibatches: Annotated[int, Bounds(least=1), "parts of each pass, an update each"] = 32
    baseline_rate: Annotated[
        float, Bounds(above=0.0), "the critic's step size, as a multiple; with network.separate-critic"
    ] = 3.0
    baseline_cost: Annotated[float, NotNegative, "weight of the value loss, which is half the squared error"] = 0.5
    entropy_cost: Annotated[float, NotNegative, "weight of the policy's entropy, in nats"] = 0.0
    reward_scale: Annotated[float, Bounds(above=0.0), "rewards are multiplied by this before they are learned from"] = (
        1.0
    )
    annealing: Annotated[
        float, NotNegative, "step sizes are divided by 1 + this times the updates, of all passes; 0 keeps them"
    ] = 5e-7
    normalize_observations: Annotated[bool, NORMALIZE_OBSERVATIONS] = False
    standardize_advantages: Annotated[bool, "subtract their mean, and divide by their deviation, in each part"] = True

    @property
    def passes(self) -> tuple[int, int]:
        """See `AlgorithmConfig.passes`."""
        return self.num_epochs, self.num_minibatches

    def learned_from(self, rewards: Tensor) -> Tensor:
        """See `AlgorithmConfig.learned_from`."""
        return rewards * self.reward_scale

    def rate_factor(self, num_learner_steps: int) -> float:
        """See `AlgorithmConfig.rate_factor`."""
        return annealed(1.0, num_learner_steps * math.prod(self.passes), self.annealing)

    @property
    def max_policy_lag(self) -> int:
        """See `AlgorithmConfig.max_policy_lag`: each batch is of the newest policy."""
        return 0

    def problems(self) -> list[Problem]:
        """Return mistakes that join several fields."""
        if self.replay_fraction:
            wrong = f"must be 0: ppo learns from fresh experience only, got {self.replay_fraction:g}"
            return [Problem("replay-fraction", wrong, "leave it out")]
        return []

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        if self.baseline_rate == 1.0 or network.separate_critic:
            return found
        wrong = f"{self.baseline_rate:g} has no effect: the value function shares the policy's torso and its step size"
        return [*found, Problem("algorithm.baseline-rate", wrong, "use network.separate-critic true, or 1")]

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Ppo:
        """See `AlgorithmConfig.build`."""
        return Ppo(self, environment, network)


class Ppo(ActorCriticAlgorithm):
    """Clipped policy optimisation with generalised advantages.

        loss = -min(rho A, clip(rho) A) + baseline_cost * 1/2 (V - R)^2 - entropy_cost * entropy

    averaged over the steps of a part of the batch. Advantages are computed once per batch, before the first pass.

    Raises:
        ValueError: the network has a memory, which shuffled steps do not support.

    Source:
        Schulman et al. 2017 (PPO).
    """

    config: PpoConfig

    def __init__(self, config: PpoConfig, environment: EnvironmentSpec, network: NetworkConfig):
        if network.core != "none":
            raise ValueError(
                f"network.core: ppo shuffles steps, which a memory ({network.core}) does not fit; use none"
            )
        super().__init__(config, environment, network, normalizes_observations=config.normalize_observations)
        if network.separate_critic and type(network).make is NetworkConfig.make:
            self.parameter_groups = (
                ParameterGroup("critic_encoder.", rate=config.baseline_rate),
                ParameterGroup("value_head.", rate=config.baseline_rate),
            )

    def prepare(self, networks: nn.Module, batch: Batch) -> Batch:
        """Return the batch's steps side by side, [1, T * B], with advantages and returns as columns."""
        output = self.evaluate(networks, batch)
        values, bootstrap_value = output.values[:-1].float(), output.values[-1].float()
        targets = gae_targets(
            self.config.learned_from(batch.rewards),
            batch.discounts,
            values,
            bootstrap_value,
            lambda_=self.config.gae_lambda,
            valid=batch.valid,
        )
        columns = {ADVANTAGES: targets.advantages, RETURNS: targets.returns, "values": values}
        last_actions = torch.cat([batch.last_action.unsqueeze(0), batch.actions[:-1]])
        last_rewards = torch.cat([batch.last_reward.unsqueeze(0), batch.rewards[:-1]])

        def flat(rows: Tensor) -> Tensor:
            return rows[: len(batch.rewards)].flatten(0, 1).unsqueeze(0)

        return dataclasses.replace(
            batch,
            observations={name: flat(value) for name, value in batch.observations.items()},
            first=flat(batch.first),
            actions=flat(batch.actions),
            rewards=flat(batch.rewards),
            discounts=flat(batch.discounts),
            valid=flat(batch.valid),
            mu={name: flat(value) for name, value in batch.mu.items()},
            last_action=flat(last_actions)[0],
            last_reward=flat(last_rewards)[0],
            source=flat(batch.source),
            task=flat(batch.task),
            policy_lag=flat(batch.policy_lag),
            importance_weights=flat(batch.importance_weights.expand(batch.shape))[0],
            core_state={},
            columns={name: flat(value) for name, value in columns.items()},
        )

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`; the batch is a part of one from `prepare`."""
        config, valid = self.config, batch.valid
        last = batch.last_action.unsqueeze(0), batch.last_reward.unsqueeze(0)
        output = self.outputs(networks, batch.observations, *last, batch.first, {})
        with torch.autocast(batch.rewards.device.type, enabled=False):
            log_pi, entropies = self.distribution.log_prob_and_entropy(output.policy, batch.actions)
            log_rhos = log_pi - self.distribution.log_prob(batch.mu, batch.actions)
            log_rhos = torch.where(valid, log_rhos, 0.0)
            count = valid.sum().clamp(min=1)
            advantages = batch.columns[ADVANTAGES]
            if config.standardize_advantages:
                centred = torch.where(valid, advantages - (advantages * valid).sum() / count, 0.0)
                advantages = centred / ((centred.square().sum() / count).sqrt() + 1e-8)
            objective = torch.where(valid, clipped_objective(log_rhos, advantages, config.clip), 0.0).sum() / count
            errors = torch.where(valid, batch.columns[RETURNS] - output.values, 0.0)
            value_term = 0.5 * errors.square().sum() / count
            entropy_term = torch.where(valid, entropies, 0.0).sum() / count
            entropy_cost = live("entropy_cost", config, schedule)
            loss = -objective + config.baseline_cost * value_term - entropy_cost * entropy_term
        with torch.no_grad():
            rhos = log_rhos.exp()
            metrics = means(
                valid,
                clip_fraction=((rhos - 1.0).abs() > config.clip).float(),
                kl_from_behaviour=self.distribution.kl(batch.mu, output.policy),
                values=output.values,
            )
            explained = explained_variance(batch.columns["values"], batch.columns[RETURNS], valid)
        metrics |= {
            "policy_objective": objective.detach(),
            "value_loss": value_term.detach(),
            "entropy": entropy_term.detach(),
            "explained_variance": explained,
        }
        return LossOutput(loss, metrics, state_updates=self.normalizer_updates(networks, batch))
