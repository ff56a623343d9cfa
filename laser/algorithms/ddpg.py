"""DDPG: a deterministic policy that climbs a learned action value, with bounded or unbounded means."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from laser.algorithms.base import LossOutput, NotNegative, ParameterGroup, Schedule, Targets
from laser.algorithms.deterministic import SLOW, DeterministicAlgorithm, DeterministicConfig
from laser.algorithms.gaussian_steps import GaussianStepNetworks
from laser.algorithms.step_learning import glorot_, near_zero_, weighted_mean
from laser.batch import Batch
from laser.config import Bounds
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import PreciseLinear
from laser.networks.mlp import MLP
from laser.specs import EnvironmentSpec


@dataclass(frozen=True)
class DdpgConfig(DeterministicConfig):
    """DDPG's settings; `learning_rate` is the critic's. Defaults are the paper's u-DDPG."""

    name: ClassVar[str] = "ddpg"

    batch_size: Annotated[int, Bounds(least=1), "steps per learner step"] = 128
    bounded: Annotated[bool, "keep the mean inside [-1, 1] with a hyperbolic tangent"] = False
    actor_rate: Annotated[float, Bounds(above=0.0), "the policy's step size, as a multiple of the critic's"] = 0.1
    critic_weight_decay: Annotated[float, NotNegative, "weight decay of the critic, added to its gradient"] = 1e-4

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Ddpg:
        """See `AlgorithmConfig.build`."""
        return Ddpg(self, environment, network)


class Critic(nn.Module):
    """Q(s, a): one net over observation and action, concatenated.

    Args:
        environment: spaces.
        network: torso for frames, and widths.
        num_dimensions: dimension of actions.
    """

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, num_dimensions: int):
        super().__init__()
        # Without layers the encoder passes vectors through unchanged.
        self.encoder = ObservationEncoder(environment.observations, dataclasses.replace(network, hidden_sizes=()))
        self.mlp = MLP(self.encoder.num_features + num_dimensions, network.hidden_sizes, network.activation)
        glorot_(self.mlp)
        self.head = near_zero_(PreciseLinear(self.mlp.num_features, 1))

    def forward(self, observations: Mapping[str, Tensor], actions: Tensor) -> Tensor:
        """Return Q [N] of normalised observations and actions [N, d]."""
        features = self.encoder(observations)
        values: Tensor = self.head(self.mlp(torch.cat([features, actions], -1)))
        return values.squeeze(-1)


class Actor(nn.Module):
    """The mean action.

    Args:
        environment: spaces.
        network: torso and widths.
        num_dimensions: dimension of actions.
        bounded: squash the mean into [-1, 1].
    """

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, num_dimensions: int, bounded: bool):
        super().__init__()
        self.encoder = ObservationEncoder(environment.observations, network)
        if self.encoder.mlp is not None:
            glorot_(self.encoder.mlp)
        self.head = near_zero_(PreciseLinear(self.encoder.num_features, num_dimensions))
        self.bounded = bounded

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Return m(s) [N, d] of normalised observations."""
        mean: Tensor = self.head(self.encoder(observations))
        return mean.tanh() if self.bounded else mean


class DdpgNetworks(GaussianStepNetworks):
    """An actor and a critic without shared layers."""

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, config: DdpgConfig, num_dimensions: int):
        super().__init__(environment, config)
        self.actor = Actor(environment, network, num_dimensions, config.bounded)
        self.critic = Critic(environment, network, num_dimensions)

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Return the mean action of N states, [N, d]."""
        mean: Tensor = self.actor(self.normalizer(observations))
        return mean


class Ddpg(DeterministicAlgorithm):
    """Deterministic policy gradient.

        y = r + disc * Q'(s', m'(s'))
        critic: near * 1/2 (y - Q(s, a))^2                             (not scaled by beta)
        actor:  near * beta * (-Q(s, m(s))) + (1 - beta) KL(mu || pi)

    with the target networks Q' and m', and rewards divided by their size. In the actor's term the critic's weights are
    held fixed.

    Source:
        Lillicrap et al. 2016 (DDPG); Novati and Koumoutsakos 2019 (ReF-ER), algorithm 4.
    """

    config: DdpgConfig

    def __init__(self, config: DdpgConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        self.parameter_groups = (
            ParameterGroup("actor.", rate=config.actor_rate),
            ParameterGroup("critic.", weight_decay=config.critic_weight_decay),
        )

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        return DdpgNetworks(self.environment, self.network, self.config, self.num_dimensions)

    def mean_action(self, networks: nn.Module, observations: Mapping[str, Tensor]) -> Tensor:
        """See `DeterministicAlgorithm.mean_action`."""
        mean: Tensor = networks(observations)
        return mean

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`."""
        networks, slow = cast(DdpgNetworks, networks), cast(DdpgNetworks, targets[SLOW])
        state, scale = networks.refer, networks.normalizer.reward_scale
        states = networks.normalizer(batch.observations)
        now, after = ({name: value[row] for name, value in states.items()} for row in (0, 1))
        with torch.no_grad():
            next_values = slow.critic(after, slow.actor(after))
            q_targets = torch.addcmul(batch.rewards[0] / scale, batch.discounts[0], next_values)
        mean, q_values = networks.actor(now), networks.critic(now, batch.actions[0])
        fixed = {name: value.detach() for name, value in networks.critic.named_parameters()}
        climbed = functional_call(networks.critic, fixed, (now, mean))
        with torch.autocast(batch.rewards.device.type, enabled=False):
            log_rhos, kls, near = self.compare(mean, batch, state)
            errors = q_targets - q_values
            critic_losses = torch.where(near, 0.5 * errors.square(), 0.0)
            actor_losses = self.refer.terms(state, -climbed, kls, near)
            # Draws by priority are corrected only in the critic's loss, whose errors set the priorities.
            loss = weighted_mean(critic_losses, batch) + actor_losses.mean()
        return self.output(
            networks,
            loss,
            log_rhos,
            errors,
            q_values,
            kl_from_behaviour=kls,
            critic_loss=critic_losses,
            q_of_policy=climbed,
            abs_mean_action=mean.abs().mean(-1),
        )
