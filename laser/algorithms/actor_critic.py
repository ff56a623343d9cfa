"""Base class of actor-critic algorithms: networks with a policy and a value, acting, evaluation of a batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import ActInput, ActOutput, Algorithm, AlgorithmConfig
from laser.algorithms.normalization import RunningNormalizer
from laser.batch import Batch
from laser.networks.actor_critic import ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.ops.action_masks import find_mask, mask_logits
from laser.ops.distributions import Statistics, distribution_for
from laser.specs import ACTION_MASK, ArraySpec, EnvironmentSpec, is_numbers

NORMALIZE_OBSERVATIONS = (
    "standardise vector observations by the mean and deviation of all fresh experience so far; not pictures"
)


class ActorCriticAlgorithm(Algorithm):
    """An algorithm that acts by sampling its policy head; a subclass adds the loss.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.
        normalizes_observations: networks see vectors standardised by the running statistics of fresh experience.

    Raises:
        ValueError: there are no vectors to normalise.
    """

    networks_apply_masks: ClassVar[bool] = False
    """Whether the networks read the action mask themselves."""

    def __init__(
        self,
        config: AlgorithmConfig,
        environment: EnvironmentSpec,
        network: NetworkConfig,
        *,
        normalizes_observations: bool = False,
    ):
        self.config = config
        self.environment = environment
        self.network = network
        self._normalizes_observations = normalizes_observations
        self._vectors = {name: spec for name, spec in environment.observations.items() if is_numbers(spec)}
        if normalizes_observations and not self._vectors:
            raise ValueError(
                "algorithm.normalize-observations: normalises vectors of numbers, and there are none; use false"
            )
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
        networks = self.network.make(self.environment.without_action_masks())
        if self._normalizes_observations:
            networks.running_normalizer = RunningNormalizer(self._vectors)
        return networks

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
        if self._normalizes_observations:
            observations = cast(RunningNormalizer, networks.running_normalizer)(observations)
        output: ActorCriticOutput = networks(observations, last_actions, last_rewards, first, core_state)
        if mask is None:
            return output
        return dataclasses.replace(output, policy={"logits": mask_logits(output.policy["logits"], mask)})

    def normalizer_updates(self, networks: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Return the statistics of observations after a batch, as `LossOutput.state_updates`; {} where there are none.

        Fresh experience counts once for each pass over it; where nothing is fresh, replayed experience counts as often
        as it is drawn.
        """
        if not self._normalizes_observations:
            return {}
        counted = batch.valid & batch.online if self.config.num_online else batch.valid
        rows = {name: value[: len(counted)] for name, value in batch.observations.items()}
        updates = cast(RunningNormalizer, networks.running_normalizer).updates(rows, counted)
        return {f"running_normalizer.{name}": value for name, value in updates.items()}


def next_core_state(output: ActorCriticOutput) -> dict[str, Tensor]:
    """Return the state before row T of T+1 evaluated rows, by name, [B, ...]: `LossOutput.core_state`."""
    return {name: value[-2].detach() for name, value in output.core_states.items()}
