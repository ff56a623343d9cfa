"""Base class of actor-critic algorithms: networks with a policy and a value, acting, evaluation of a batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import ActInput, ActOutput, Algorithm, AlgorithmConfig
from laser.batch import Batch
from laser.networks.actor_critic import ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.ops.action_masks import find_mask, mask_logits
from laser.ops.distributions import Statistics, distribution_for
from laser.specs import ACTION_MASK, ArraySpec, EnvironmentSpec


class ActorCriticAlgorithm(Algorithm):
    """An algorithm that acts by sampling its policy head; a subclass adds the loss.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.
    """

    networks_apply_masks: ClassVar[bool] = False
    """Whether the networks read the action mask themselves."""

    def __init__(self, config: AlgorithmConfig, environment: EnvironmentSpec, network: NetworkConfig):
        self.config = config
        self.environment = environment
        self.network = network
        self.distribution = distribution_for(environment.actions)

    @property
    def behaviour(self) -> dict[str, ArraySpec]:
        """All of the policy's statistics; see `Algorithm.behaviour`."""
        return {name: ArraySpec((size,)) for name, size in self.distribution.sizes.items()}

    @property
    def core_state(self) -> Mapping[str, ArraySpec]:
        """The network's recurrent state; see `Algorithm.core_state`."""
        return self.network.core_state

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        return self.network.make(self.environment.without_action_masks())

    @torch.no_grad()
    def act(
        self, networks: nn.Module, inputs: ActInput, generator: Generator | None, *, greedy: bool = False
    ) -> ActOutput:
        """See `Algorithm.act`."""
        rows = {name: value.unsqueeze(0) for name, value in inputs.observations.items()}
        last = inputs.last_action.unsqueeze(0), inputs.last_reward.unsqueeze(0)
        output = self.outputs(networks, rows, *last, inputs.first.unsqueeze(0), inputs.core_state)
        mu = {name: value.squeeze(0).float() for name, value in output.policy.items()}
        actions = self.distribution.mode(mu) if greedy else self.distribution.sample(mu, generator)
        new_state = {name: value[-1] for name, value in output.core_states.items()}
        values = self.state_values(output.values.squeeze(0).float(), mu)
        return ActOutput(actions, mu, values, new_state)

    def state_values(self, values: Tensor, policy: Statistics) -> Tensor:
        """Return [N] state values for the live view.

        Args:
            values: output of the critic for N states, [N] or [N, ...].
            policy: statistics of the policy in these states, [N, ...].
        """
        if values.ndim == 2:  # one value per task: the task of these environments is not known here
            return values.squeeze(-1) if values.shape[-1] == 1 else values.new_full(values.shape[:1], math.nan)
        return values

    def evaluate(self, networks: nn.Module, batch: Batch) -> ActorCriticOutput:
        """Return the networks' output for the T+1 rows of a batch."""
        last_actions = torch.cat([batch.last_action.unsqueeze(0), batch.actions])
        last_rewards = torch.cat([batch.last_reward.unsqueeze(0), batch.rewards])
        return self.outputs(networks, batch.observations, last_actions, last_rewards, batch.first, batch.core_state)

    def outputs(
        self,
        networks: nn.Module,
        observations: Mapping[str, Tensor],
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> ActorCriticOutput:
        """Return the networks' output, with a policy over the allowed actions; see `ActorCritic.forward`.

        Networks do not see the action mask unless they apply it themselves, so that a user's own need not know of it.
        """
        mask = None if self.networks_apply_masks else find_mask(observations)
        if mask is not None:
            observations = {name: value for name, value in observations.items() if name != ACTION_MASK}
        output: ActorCriticOutput = networks(observations, last_actions, last_rewards, first, core_state)
        if mask is None:
            return output
        return dataclasses.replace(output, policy={"logits": mask_logits(output.policy["logits"], mask)})


def next_core_state(output: ActorCriticOutput) -> dict[str, Tensor]:
    """Return the state before row T of T+1 evaluated rows, by name, [B, ...]: `LossOutput.core_state`."""
    return {name: value[-2].detach() for name, value in output.core_states.items()}
