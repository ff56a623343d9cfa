"""The actor-critic network: a policy and a state value over shared or separate features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import ValueHead, make_policy_head
from laser.networks.recurrent import FeaturesLSTMCore, LSTMCore, PreCoCore
from laser.networks.settings import NetworkSettings
from laser.ops.distributions import distribution_for
from laser.specs import EnvironmentSpec

CORES: dict[str, type[LSTMCore] | type[FeaturesLSTMCore] | type[PreCoCore]] = {
    "lstm": LSTMCore,
    "lstm_features": FeaturesLSTMCore,
    "preco": PreCoCore,
}


@dataclass(frozen=True)
class ActorCriticOutput:
    """Output of an actor-critic network for T rows of B sequences.

    Args:
        policy: statistics of the policy by name, float32 [T, B, ...].
        values: float32 [T, B]; [T, B, num_tasks] of a critic with a value per task.
        core_states: recurrent state after each row by name, float32 [T, B, ...]; empty for feed-forward networks.
            To act, keep row -1. To learn from an unroll of T+1 rows, keep row -2, the state after row T-1: row T is row
            0 of the next unroll and is processed there.
        features: input of the policy head, [T, B, num_features], for heads that only a loss reads.
        critic_features: input of the value head, [T, B, num_features].
    """

    policy: dict[str, Tensor]
    values: Tensor
    core_states: dict[str, Tensor] = field(default_factory=dict)
    features: Tensor | None = None
    critic_features: Tensor | None = None


class ActorCritic(nn.Module):
    """A policy and a state value, evaluated on all rows in one pass: torso and heads see time and batch flattened.

    A recurrent core between them processes the rows in order; without a core the network sees observations only.

    Args:
        environment: spaces.
        config: torso, widths, core, separate critic.

    Raises:
        ValueError: the torso does not support such observations.
    """

    def __init__(self, environment: EnvironmentSpec, config: NetworkSettings):
        super().__init__()
        self.encoder = ObservationEncoder(environment.observations, config)
        self.critic_encoder = ObservationEncoder(environment.observations, config) if config.separate_critic else None
        num_features = self.encoder.num_features
        self.core = None
        if config.core != "none":
            self.core = CORES[config.core](num_features, environment.actions, config.core_size)
            num_features = self.core.num_features
        # A separate critic torso is as wide as the policy's; a core serves both.
        self.num_features = self.num_critic_features = num_features
        self.policy_head = make_policy_head(num_features, distribution_for(environment.actions), config.initial_std)
        self.value_head: nn.Module = ValueHead(num_features)

    def forward(
        self,
        observations: Mapping[str, Tensor],
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> ActorCriticOutput:
        """Evaluate policy and value.

        Args:
            observations: observations by name, [T, B, ...]; frames uint8 [T, B, channels, height, width].
            last_actions: [T, B, ...], the action before each row.
            last_rewards: [T, B], the reward before each row.
            first: bool [T, B]; where True the recurrent state is reset before the row is used.
            core_state: recurrent state before row 0 by name, [B, ...].
        """
        rows = first.shape
        flat = {name: value.flatten(0, 1) for name, value in observations.items()}
        features = self.encoder(flat)
        critic_features = features if self.critic_encoder is None else self.critic_encoder(flat)
        core_states: dict[str, Tensor] = {}
        if self.core is not None:
            core_states = self.core(features.unflatten(0, rows), last_actions, last_rewards, first, core_state)
            features = critic_features = core_states["hidden"].flatten(0, 1)
        policy = {name: value.unflatten(0, rows) for name, value in self.policy_head(features).items()}
        values = self.value_head(critic_features).unflatten(0, rows)
        return ActorCriticOutput(
            policy, values, core_states, features.unflatten(0, rows), critic_features.unflatten(0, rows)
        )
