"""The Reactor's networks: policy, action values and an estimate of the behaviour policy over one torso."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from laser.networks.actor_critic import CORES, ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import LogitsHead, PreciseLinear
from laser.networks.mlp import MLP, ConcatenatedReLU, orthogonal
from laser.ops.action_masks import count_allowed, find_mask, mask_logits, mean_of_allowed
from laser.specs import DiscreteActions, EnvironmentSpec

POLICY, CRITIC, BEHAVIOUR = "policy", "critic", "behaviour"


@dataclass(frozen=True)
class ReactorOutput(ActorCriticOutput):
    """Output of the networks for T rows of B sequences.

    Args:
        q_values: float32 [T, B, A].
        behaviour: statistics of the estimated behaviour policy by name, [T, B, A]; empty where none is learned.
    """

    q_values: Tensor = field(kw_only=True)
    behaviour: dict[str, Tensor] = field(kw_only=True)


class ExploringHead(nn.Module):
    """A policy over discrete actions that gives each one some probability.

        p = (1 - exploration) softmax(z) + exploration / A

    over the A actions that are allowed.
    Its logits are log p: acting, storing and learning use the same distribution.

    Args:
        num_features: width of the input.
        num_actions: A, number of actions.
        size: width of the hidden layer, before its rectifier doubles it.
        exploration: in [0, 1).
    """

    def __init__(self, num_features: int, num_actions: int, size: int, exploration: float):
        super().__init__()
        self.hidden = MLP(num_features, (size,), "crelu")
        self.logits = LogitsHead(self.hidden.num_features, num_actions)
        self._exploration = exploration
        self._num_actions = num_actions

    def forward(self, features: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """Map [N, num_features] to {"logits": [N, A]}, normalised.

        Args:
            features: of N states.
            mask: bool [N, A], allowed actions; None: all.
        """
        log_probs = mask_logits(self.logits(self.hidden(features))["logits"], mask).log_softmax(-1)
        if self._exploration:
            if mask is None:
                floor = log_probs.new_full((), math.log(self._exploration / self._num_actions))
            else:
                floor = (self._exploration / count_allowed(mask)).log()
            log_probs = torch.logaddexp(log_probs + math.log1p(-self._exploration), floor)
        return {"logits": mask_logits(log_probs, mask)}


class DuelingHead(nn.Module):
    """Action values from two branches, each with a hidden layer: Q(a) = V + A(a) - mean_a A(a), over allowed actions.

    Args:
        num_features: width of the input.
        num_actions: A, number of actions.
        size: width of the hidden layers, before their rectifiers double them.

    Source:
        Wang et al. 2016 (dueling), equation 9.
    """

    def __init__(self, num_features: int, num_actions: int, size: int):
        super().__init__()
        # The hidden units of both branches in one layer: the value's, then the advantages'.
        self.hidden = orthogonal(nn.Linear(num_features, 2 * size), math.sqrt(2.0))
        self.rectifier = ConcatenatedReLU()
        self.value = orthogonal(PreciseLinear(2 * size, 1), 1.0)
        self.advantage = orthogonal(PreciseLinear(2 * size, num_actions), 1.0)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map [N, num_features] to [N, A]; arguments as for `ExploringHead`."""
        # [N, 2, 2 * size]: the two branches.
        streams = self.rectifier(self.hidden(features).unflatten(-1, (2, -1)))
        values, advantages = self.value(streams[:, 0]), self.advantage(streams[:, 1])
        q_values: Tensor = values + advantages - mean_of_allowed(advantages, mask)
        return q_values


class ReactorNetworks(nn.Module):
    """One torso, and a core and a head each for policy, action values and behaviour.

    Only the action values send gradients to the torso. Policy and behaviour take its features as given, so that no loop
    closes between the policy and the values it is learned from.

    Args:
        environment: spaces, with discrete actions.
        network: torso and core.
        head_size: hidden units of each head, before rectifiers double them.
        exploration: share of uniformly random actions in policy and behaviour.
        guesses_behaviour: estimate the behaviour policy, with a head of its own.

    Raises:
        ValueError: the torso does not support such observations.

    Source:
        Gruslys et al. 2017 (the Reactor), section 3.3. Its cores see the features alone: `network.core` lstm_features.
    """

    def __init__(
        self,
        environment: EnvironmentSpec,
        network: NetworkConfig,
        head_size: int,
        exploration: float,
        guesses_behaviour: bool,
    ):
        super().__init__()
        actions = environment.actions
        assert isinstance(actions, DiscreteActions)
        self.encoder = ObservationEncoder(environment.observations, network)
        names = [POLICY, CRITIC, *([BEHAVIOUR] if guesses_behaviour else [])]
        num_features = self.encoder.num_features
        self.cores: nn.ModuleDict | None = None
        if network.core != "none":
            kind = CORES[network.core]
            self.cores = nn.ModuleDict({name: kind(num_features, actions, network.core_size) for name in names})
            num_features = network.core_size
        self.heads = nn.ModuleDict(
            {
                name: DuelingHead(num_features, actions.num_actions, head_size)
                if name == CRITIC
                else ExploringHead(num_features, actions.num_actions, head_size, exploration)
                for name in names
            }
        )

    def forward(
        self,
        observations: Mapping[str, Tensor],
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> ReactorOutput:
        """Evaluate everything; see `ActorCritic.forward`. `values` are E_pi Q, without gradients."""
        past = (last_actions, last_rewards, first, core_state)
        features, mask = self._encode(observations, first), _flat_mask(observations)
        answers: dict[str, Any] = {}
        states: dict[str, Tensor] = {}
        for name, head in self.heads.items():
            seen, state = self._remember(name, features if name == CRITIC else features.detach(), *past)
            answers[name] = head(seen.flatten(0, 1), mask)
            states |= state
        rows = first.shape
        policy, behaviour = (
            {key: value.unflatten(0, rows) for key, value in answers.get(name, {}).items()}
            for name in (POLICY, BEHAVIOUR)
        )
        q_values: Tensor = answers[CRITIC].unflatten(0, rows)
        with torch.no_grad():  # used for display only
            values = (policy["logits"].exp() * q_values).sum(-1)
        return ReactorOutput(policy, values, states, q_values=q_values, behaviour=behaviour)

    def q_values(
        self,
        observations: Mapping[str, Tensor],
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> Tensor:
        """Return the action values alone, [T, B, A]; arguments as for `forward`."""
        features = self._encode(observations, first)
        seen, _ = self._remember(CRITIC, features, last_actions, last_rewards, first, core_state)
        q_values: Tensor = self.heads[CRITIC](seen.flatten(0, 1), _flat_mask(observations)).unflatten(0, first.shape)
        return q_values

    def _encode(self, observations: Mapping[str, Tensor], first: Tensor) -> Tensor:
        flat = {name: value.flatten(0, 1) for name, value in observations.items()}
        features: Tensor = self.encoder(flat).unflatten(0, first.shape)
        return features

    def _remember(
        self,
        name: str,
        features: Tensor,
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return a head's input [T, B, num_features], and its core's states after each row by name."""
        if self.cores is None:
            return features, {}
        own = {key: core_state[state_name(name, key)] for key in ("hidden", "cell")}
        states: dict[str, Tensor] = self.cores[name](features, last_actions, last_rewards, first, own)
        return states["hidden"], {state_name(name, key): value for key, value in states.items()}


def _flat_mask(observations: Mapping[str, Tensor]) -> Tensor | None:
    mask = find_mask(observations)
    return None if mask is None else mask.flatten(0, 1)


def state_name(head: str, part: str) -> str:
    """Return the name of a part of a head's recurrent state, e.g. `policy_hidden`."""
    return f"{head}_{part}"
