"""Base class of SAC and TD3: two critics whose smaller value counts, target networks, random actions at the start."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch
from torch import Generator, Tensor, nn
from torch.func import vjp

from laser.algorithms.base import ActInput, ActOutput, LossOutput, NotNegative, Positive
from laser.algorithms.step_learning import BootstrapConfig, StepAlgorithm, weighted_mean
from laser.batch import Batch
from laser.config import Bounds
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import PreciseLinear
from laser.networks.parallel_mlp import ParallelMLP, uniform_
from laser.ops.distributions import DiagonalGaussian, normal_like
from laser.ops.squashed_gaussian import UNIFORM_STD
from laser.specs import ArraySpec, EnvironmentSpec

SLOW = "slow"
_LEAST_SCALE = 1e-6


@dataclass(frozen=True)
class TwinCriticConfig(BootstrapConfig):
    """Settings of algorithms with two critics."""

    actor_rate: Annotated[float, Positive, "the policy's step size, as a multiple of the critics'"] = 1.0
    target_rate: Annotated[
        float, Bounds(above=0.0, most=1.0), "share of the way that target networks move each time"
    ] = 0.005
    random_start: Annotated[bool, "act at random until the first learner step, after replay.min-steps"] = True
    clone_cost: Annotated[
        float,
        NotNegative,
        "squared distance of the policy's action from the stored one, per dimension of [-1, 1], as a cost in units of "
        "the mean |Q|; keeps an agent that learns from a log alone near it",
    ] = 0.0


class Actor(nn.Module):
    """A network from observations to the parameters of the policy.

    Args:
        environment: spaces.
        network: torso and widths.
        num_outputs: numbers per state.
    """

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, num_outputs: int):
        super().__init__()
        self.encoder = ObservationEncoder(environment.observations, network)
        if self.encoder.mlp is not None:
            uniform_(self.encoder.mlp)
        self.head = PreciseLinear(self.encoder.num_features, num_outputs)

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Return [N, num_outputs] of observations [N, ...] by name."""
        outputs: Tensor = self.head(self.encoder(observations))
        return outputs


class TwinCritics(nn.Module):
    """Q_1(s, a) and Q_2(s, a), over observation and action, concatenated.

    Args:
        environment: spaces.
        network: torso for frames, which both share, and widths.
        num_dimensions: dimension of actions.
    """

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, num_dimensions: int):
        super().__init__()
        # Without layers the encoder passes vectors through unchanged.
        self.encoder = ObservationEncoder(environment.observations, dataclasses.replace(network, hidden_sizes=()))
        num_inputs = self.encoder.num_features + num_dimensions
        self.nets = ParallelMLP(2, num_inputs, network.hidden_sizes, network.activation)

    def forward(self, observations: Mapping[str, Tensor], actions: Tensor, num_critics: int = 2) -> Tensor:
        """Return values [num_critics, N] of observations and actions [N, d]."""
        features = self.encoder(observations)
        values: Tensor = self.nets(torch.cat([features, actions], -1), num_critics)
        return values


class TwinCriticNetworks(nn.Module):
    """A policy and two critics without shared layers; a buffer tells actors whether learning has begun.

    Args:
        environment: spaces.
        network: torso and widths.
        num_dimensions: dimension of actions.
        num_outputs: outputs of the policy per state.
    """

    has_learned: Tensor

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, num_dimensions: int, num_outputs: int):
        super().__init__()
        self.actor = Actor(environment, network, num_outputs)
        self.critics = TwinCritics(environment, network, num_dimensions)
        self.register_buffer("has_learned", torch.zeros(()))

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Return the parameters of the policy, [N, num_outputs]."""
        outputs: Tensor = self.actor(observations)
        return outputs


class TwinCriticAlgorithm(StepAlgorithm):
    """The critics' part of the loss, and acting; a subclass adds the policy.

        critics: w * 1/2 sum_k (y - Q_k(s, a))^2          y = r + disc * (min_k Q_k'(s', a') - cost(a'))

    with the target networks Q', the draw's correction w, and a' and its cost from the subclass. Samplers get the errors
    and values of the first critic.

    Until the first update actions are about uniform in [-1, 1]: tanh of a normal number with `UNIFORM_STD`.
    """

    config: TwinCriticConfig
    acts_with = ("actor.", "has_learned")
    random_std: ClassVar[float]
    """Standard deviation stored in mu, with a mean of 0, for random actions."""
    statistic_prefix: ClassVar[str]
    """Prefix of the names of mu's statistics, which are not statistics of the actions themselves: algorithms that read
    "mean" and "std" as a Gaussian over actions must not learn from this replay."""

    def __init__(self, config: TwinCriticConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        self.distribution = DiagonalGaussian(self.num_dimensions)  # before it is squashed or clipped

    @property
    def behaviour(self) -> dict[str, ArraySpec]:
        """See `Algorithm.behaviour`."""
        return {self.statistic_prefix + name: ArraySpec((size,)) for name, size in self.distribution.sizes.items()}

    @abstractmethod
    def policy(self, outputs: Tensor) -> dict[str, Tensor]:
        """Return "mean" and "std", [N, d], from the actor's output, [N, ...]."""

    @abstractmethod
    def draw(self, policy: Mapping[str, Tensor], normal: Tensor) -> Tensor:
        """Return actions [N, d] in [-1, 1], made of standard normal numbers [N, d]; zeros give the greedy ones."""

    @torch.no_grad()
    def act(
        self, networks: nn.Module, inputs: ActInput, generator: Generator | None, *, greedy: bool = False
    ) -> ActOutput:
        """See `Algorithm.act`."""
        policy = self.policy(networks(inputs.observations).float())
        values = policy["mean"].new_full(inputs.first.shape, math.nan)
        if greedy:
            return ActOutput(self.draw(policy, torch.zeros_like(policy["mean"])), self._recorded(policy), values)
        normal = normal_like(policy["mean"], generator)
        actions = self.draw(policy, normal)
        if self.config.random_start:
            has_learned = cast(TwinCriticNetworks, networks).has_learned.bool()
            random = {"mean": torch.zeros_like(normal), "std": torch.full_like(normal, self.random_std)}
            actions = torch.where(has_learned, actions, (UNIFORM_STD * normal).tanh())
            policy = {name: torch.where(has_learned, value, random[name]) for name, value in policy.items()}
        return ActOutput(actions, self._recorded(policy), values)

    def _recorded(self, policy: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {self.statistic_prefix + name: value for name, value in policy.items()}

    def fit(
        self,
        networks: TwinCriticNetworks,
        slow: TwinCriticNetworks,
        batch: Batch,
        next_actions: Tensor,
        costs: Tensor | float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """Compute the targets and values of both critics.

        Args:
            networks: networks whose critics are fitted.
            slow: target networks, whose critics value the next states.
            batch: single steps.
            next_actions: a', [B, d].
            costs: costs, subtracted from the value of a', [B].

        Returns:
            targets y without gradients, and values Q_k(s, a), [B] and [2, B].
        """
        states, next_states = rows_of(batch)
        with torch.no_grad():
            next_values = slow.critics(next_states, next_actions).amin(0) - costs
            q_targets = torch.addcmul(batch.rewards[0], batch.discounts[0], next_values)
        return q_targets, networks.critics(states, batch.actions[0])

    def policy_loss(
        self, batch: Batch, actions: Tensor, q_of_policy: Tensor, costs: Tensor | float = 0.0
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the policy's loss, which with `clone_cost` c is mean(costs - Q) / mean |Q| + c mean((b - a)^2).

        Args:
            batch: single steps, with the stored actions a.
            actions: b, [B, d], drawn from the policy.
            q_of_policy: Q(s, b), [B].
            costs: of b beside the values, [B].

        Returns:
            the scalar, and metrics [B] by name.

        Source:
            Fujimoto and Gu 2021 (TD3+BC), with c = 1 / alpha; 0.4 there.
        """
        loss = (costs - q_of_policy).mean()
        if not self.config.clone_cost:
            return loss, {}
        distances = (actions - batch.actions[0]).square().mean(-1)
        scale = q_of_policy.detach().abs().mean().clamp(min=_LEAST_SCALE)
        return loss / scale + self.config.clone_cost * distances.mean(), {"clone_distance": distances}

    def output(
        self, batch: Batch, q_targets: Tensor, q_values: Tensor, policy_loss: Tensor | None, **values: Tensor
    ) -> LossOutput:
        """Return the critics' loss and the policy's as one, with metrics and column writes.

        Args:
            batch: single steps.
            q_targets: [B].
            q_values: [2, B].
            policy_loss: scalar; None if the policy is not due.
            **values: [B] by name; their means become metrics.
        """
        losses = 0.5 * (q_targets - q_values).square().sum(0)
        loss = weighted_mean(losses, batch)
        errors = (q_targets - q_values[0]).detach()
        means = {"critic_loss": losses, "q_value": q_values[0], "abs_td_error": errors.abs(), **values}
        with torch.no_grad():
            averages = torch.stack(list(means.values())).mean(-1)
        return LossOutput(
            loss if policy_loss is None else loss + policy_loss,
            dict(zip(means, averages.unbind(), strict=True)),
            state_updates={"has_learned": torch.ones_like(loss.detach())},
            per_step={"td_error": errors.unsqueeze(0), "q": q_values[:1].detach()},
        )


def rows_of(batch: Batch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the observations of single steps, and the next observations, [B, ...] by name."""
    now, after = ({name: value[row] for name, value in batch.observations.items()} for row in (0, 1))
    return now, after


def climbed(critics: nn.Module, states: Mapping[str, Tensor], actions: Tensor, *, first: bool = False) -> Tensor:
    """Return min_k Q_k(s, a) [B], or Q_1's, with gradients to the actions and none to the critics.

    The gradient is computed here, not with the loss: compiled code then need not keep the critics' activations.

    Args:
        critics: `TwinCritics`.
        states: by name, [B, ...].
        actions: [B, d].
        first: use the first critic alone.
    """

    def value(taken: Tensor) -> Tensor:
        values: Tensor = critics(states, taken, 1 if first else 2)
        return values.amin(0)

    with torch.no_grad():
        values, pull_back, *_ = vjp(value, actions)
        # Backward in the precision of the forward pass: autocast would round the first layer's weights and slopes.
        with torch.autocast(actions.device.type, enabled=False):
            (slopes,) = pull_back(torch.ones_like(values))
    with_slopes: Tensor = values + (slopes * (actions - actions.detach())).sum(-1)
    return with_slopes
