"""SAC: a stochastic policy that maximises the smaller of two critics plus its entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import LossOutput, ParameterGroup, Positive, Schedule, Target, Targets
from laser.algorithms.twin_critics import (
    SLOW,
    TwinCriticAlgorithm,
    TwinCriticConfig,
    TwinCriticNetworks,
    climbed,
    rows_of,
)
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.config import NetworkConfig
from laser.ops.distributions import normal_like
from laser.ops.squashed_gaussian import UNIFORM_STD, squashed_draw
from laser.specs import EnvironmentSpec

# The logarithm of the policy's standard deviation stays within these, as in the authors' code.
MIN_LOG_STD, MAX_LOG_STD = -20.0, 2.0


@dataclass(frozen=True)
class SacConfig(TwinCriticConfig):
    """SAC's settings; `learning_rate` is the critics'."""

    name: ClassVar[str] = "sac"

    temperature: Annotated[float, Positive, "value of a nat of entropy in rewards; its start if learned"] = 1.0
    learn_temperature: Annotated[bool, "move the temperature until the policy has the entropy wanted"] = True
    temperature_rate: Annotated[float, Positive, "the temperature's step size, as a multiple of the critics'"] = 1.0
    entropy_per_dimension: Annotated[
        float, Bounds(), "with learn-temperature: the entropy wanted, in nats per dimension of actions in [-1, 1]"
    ] = -1.0

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        if not self.learn_temperature:
            names = ("temperature_rate", "entropy_per_dimension")
            why = "the temperature is fixed"
            found += find_unused(self, "algorithm", names, why, "use --algorithm.learn-temperature true")
        return found

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Sac:
        """See `AlgorithmConfig.build`."""
        return Sac(self, environment, network)


class SacNetworks(TwinCriticNetworks):
    """A policy, two critics and the temperature, which is trained, saved and copied like the other weights.

    Args:
        environment: spaces.
        network: torso and widths.
        config: settings with the initial temperature.
        num_dimensions: dimension of actions.
    """

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, config: SacConfig, num_dimensions: int):
        super().__init__(environment, network, num_dimensions, 2 * num_dimensions)
        self.log_temperature = nn.Parameter(torch.tensor(config.temperature).log())


class Sac(TwinCriticAlgorithm):
    """Soft actor-critic.

        y           = r + disc * (min_k Q_k'(s', a') - alpha log pi(a'|s'))               a' ~ pi(.|s')
        critics:      w * 1/2 sum_k (y - Q_k(s, a))^2
        policy:       alpha log pi(b|s) - min_k Q_k(s, b)                                 b ~ pi(.|s)
        temperature:  -log alpha * (log pi(b|s) + wanted entropy)

    with the target networks Q', and alpha, y and, in the policy's term, the critics' weights held fixed; for logs see
    `policy_loss`. Rewards of several steps are summed without the entropy between them. Actions are tanh of a Gaussian;
    the stored mu is its mean and standard deviation, before the tanh.

    Source:
        Haarnoja et al. 2018 (SAC; and "Algorithms and Applications" for the temperature).
    """

    config: SacConfig
    random_std = UNIFORM_STD
    statistic_prefix = "pre_tanh_"

    def __init__(self, config: SacConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        self.targets = {SLOW: Target(config.target_rate)}
        self.parameter_groups = (
            ParameterGroup("actor.", rate=config.actor_rate),
            ParameterGroup("log_temperature", rate=config.temperature_rate),
        )

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        return SacNetworks(self.environment, self.network, self.config, self.num_dimensions)

    def policy(self, outputs: Tensor) -> dict[str, Tensor]:
        """See `TwinCriticAlgorithm.policy`."""
        mean, log_std = outputs.chunk(2, -1)
        return {"mean": mean, "std": log_std.clamp(MIN_LOG_STD, MAX_LOG_STD).exp()}

    def draw(self, policy: Mapping[str, Tensor], normal: Tensor) -> Tensor:
        """See `TwinCriticAlgorithm.draw`."""
        return squashed_draw(policy["mean"], policy["std"], normal)[0]

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`."""
        networks, slow = cast(SacNetworks, networks), cast(SacNetworks, targets[SLOW])
        states, next_states = rows_of(batch)
        temperature = networks.log_temperature.detach().exp()
        with torch.no_grad():
            policy = self.policy(networks.actor(next_states))
            next_actions, next_log_probs = squashed_draw(**policy, normal=normal_like(policy["mean"], generator))
        q_targets, q_values = self.fit(networks, slow, batch, next_actions, temperature * next_log_probs)
        policy = self.policy(networks.actor(states))
        actions, log_probs = squashed_draw(**policy, normal=normal_like(policy["mean"], generator))
        least = climbed(networks.critics, states, actions)
        loss, cloning = self.policy_loss(batch, actions, least, temperature * log_probs)
        if self.config.learn_temperature:
            wanted = self.config.entropy_per_dimension * self.num_dimensions
            loss = loss - networks.log_temperature * (log_probs.detach().mean() + wanted)
        output = self.output(
            batch,
            q_targets,
            q_values,
            loss,
            entropy=-log_probs,
            q_of_policy=least,
            std=policy["std"].mean(-1),
            **cloning,
        )
        output.metrics["temperature"] = temperature
        return output
