"""TD3: DDPG with two critics, noise on target actions, and less frequent updates of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import LossOutput, NotNegative, ParameterGroup, Schedule, Target, Targets, is_due
from laser.algorithms.twin_critics import (
    SLOW,
    TwinCriticAlgorithm,
    TwinCriticConfig,
    TwinCriticNetworks,
    climbed,
    rows_of,
)
from laser.batch import Batch
from laser.config import Bounds
from laser.networks.config import NetworkConfig
from laser.ops.distributions import normal_like
from laser.specs import EnvironmentSpec

ACTOR = "actor."


@dataclass(frozen=True)
class Td3Config(TwinCriticConfig):
    """TD3's settings; `learning_rate` is the critics'."""

    name: ClassVar[str] = "td3"

    policy_delay: Annotated[int, Bounds(least=1), "critic updates per update of the policy"] = 2
    target_interval: Annotated[
        int, Bounds(least=0), "critic updates per update of the target networks; 0: as for the policy"
    ] = 0
    target_noise: Annotated[float, NotNegative, "standard deviation of the noise on target actions, of [-1, 1]"] = 0.2
    target_noise_clip: Annotated[float, NotNegative, "that noise is cut to +- this"] = 0.5
    exploration_std: Annotated[float, Bounds(above=0.0), "size of the noise on actions, in [-1, 1] action units"] = 0.1

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Td3:
        """See `AlgorithmConfig.build`."""
        return Td3(self, environment, network)


class Td3(TwinCriticAlgorithm):
    """Twin delayed deterministic policy gradient.

        a'       = clip(m'(s') + clip(noise, -c, c), -1, 1)            m = tanh of the actor
        y        = r + disc * min_k Q_k'(s', a')
        critics:   w * 1/2 sum_k (y - Q_k(s, a))^2
        policy:    -Q_1(s, m(s))                                    every `policy_delay` updates

    with the target networks Q' and m', which move every `target_interval` updates, and in the policy's term the
    critics' weights held fixed; for logs see `policy_loss`. The stored mu is the mean and the noise's size, before
    actions are clipped to [-1, 1].

    Source:
        Fujimoto et al. 2018 (TD3).
    """

    config: Td3Config
    random_std = 3.0**-0.5
    statistic_prefix = "unclipped_"

    def __init__(self, config: Td3Config, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        self.targets = {SLOW: Target(config.target_rate, config.target_interval or config.policy_delay)}
        self.parameter_groups = (ParameterGroup(ACTOR, rate=config.actor_rate, period=config.policy_delay),)

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        return TwinCriticNetworks(self.environment, self.network, self.num_dimensions, self.num_dimensions)

    def policy(self, outputs: Tensor) -> dict[str, Tensor]:
        """See `TwinCriticAlgorithm.policy`."""
        return {"mean": outputs.tanh(), "std": torch.full_like(outputs, self.config.exploration_std)}

    def draw(self, policy: Mapping[str, Tensor], normal: Tensor) -> Tensor:
        """See `TwinCriticAlgorithm.draw`."""
        return (policy["mean"] + policy["std"] * normal).clamp(-1.0, 1.0)

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`."""
        networks, slow = cast(TwinCriticNetworks, networks), cast(TwinCriticNetworks, targets[SLOW])
        states, next_states = rows_of(batch)
        with torch.no_grad():
            next_actions = slow.actor(next_states).tanh()
            clip = self.config.target_noise_clip
            noise = (self.config.target_noise * normal_like(next_actions, generator)).clamp(-clip, clip)
            next_actions = (next_actions + noise).clamp(-1.0, 1.0)
        q_targets, q_values = self.fit(networks, slow, batch, next_actions)
        if not is_due(ACTOR, schedule):
            return self.output(batch, q_targets, q_values, None)
        actions = networks.actor(states).tanh()
        q_of_policy = climbed(networks.critics, states, actions, first=True)
        loss, cloning = self.policy_loss(batch, actions, q_of_policy)
        size = actions.abs().mean(-1)
        return self.output(batch, q_targets, q_values, loss, q_of_policy=q_of_policy, abs_action=size, **cloning)
