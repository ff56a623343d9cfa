"""NAF: Q-learning with action values that form a paraboloid over actions, so that their maximum is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import LossOutput, Schedule, Targets
from laser.algorithms.deterministic import SLOW, DeterministicAlgorithm, DeterministicConfig
from laser.algorithms.gaussian_steps import GaussianStepNetworks
from laser.algorithms.step_learning import glorot_, near_zero_, weighted_mean
from laser.batch import Batch
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import PreciseLinear
from laser.ops.advantages import QuadraticAdvantage, lower_triangular, quadratic_form
from laser.specs import EnvironmentSpec


@dataclass(frozen=True)
class NafConfig(DeterministicConfig):
    """NAF's settings; defaults are the paper's."""

    name: ClassVar[str] = "naf"

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Naf:
        """See `AlgorithmConfig.build`."""
        return Naf(self, environment, network)


class NafNetworks(GaussianStepNetworks):
    """One torso with heads for the value, the best action and the curvature around it.

    Args:
        environment: spaces.
        network: the torso.
        config: settings.
        num_dimensions: dimension of actions.
    """

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, config: NafConfig, num_dimensions: int):
        super().__init__(environment, config)
        self.encoder = ObservationEncoder(environment.observations, network)
        if self.encoder.mlp is not None:
            glorot_(self.encoder.mlp)
        num_features = self.encoder.num_features
        # Value, best action and curvature side by side.
        self._sizes = [1, num_dimensions, QuadraticAdvantage(num_dimensions).num_outputs]
        self.output = near_zero_(PreciseLinear(num_features, sum(self._sizes)))

    def forward(self, observations: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return values [N], best actions [N, d] and triangles [N, d (d + 1) / 2] of N states."""
        values, mean, coefficients = self.output(self.encoder(self.normalizer(observations))).split(self._sizes, -1)
        return values.squeeze(-1), mean, coefficients


class Naf(DeterministicAlgorithm):
    """Normalised advantage functions.

        Q(s, a) = V(s) - 1/2 (a - m)^T L L^T (a - m)
        loss    = near * 1/2 (r + disc * V'(s') - Q(s, a))^2 + (1 - beta) KL(mu || pi)

    with the target network V'. The gradient of the first term through m is multiplied by beta, as in ReF-ER
    for the policy; value and curvature learn at full size.

    Source:
        Gu et al. 2016 (NAF); Novati and Koumoutsakos 2019 (ReF-ER), section 6.2 and appendix D.
    """

    config: NafConfig

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        return NafNetworks(self.environment, self.network, self.config, self.num_dimensions)

    def mean_action(self, networks: nn.Module, observations: Mapping[str, Tensor]) -> Tensor:
        """See `DeterministicAlgorithm.mean_action`."""
        mean: Tensor = networks(observations)[1]
        return mean

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`."""
        networks = cast(NafNetworks, networks)
        state, scale = networks.refer, networks.normalizer.reward_scale
        values, mean, coefficients = networks({name: value[0] for name, value in batch.observations.items()})
        with torch.no_grad():
            next_values = targets[SLOW]({name: value[1] for name, value in batch.observations.items()})[0]
            q_targets = torch.addcmul(batch.rewards[0] / scale, batch.discounts[0], next_values)
        with torch.autocast(batch.rewards.device.type, enabled=False):
            log_rhos, kls, near = self.compare(mean, batch, state)
            beta = state.beta if self.config.refer.enabled else 1.0
            steered = beta * mean + (1.0 - beta) * mean.detach()
            triangle = lower_triangular(coefficients, self.num_dimensions)
            q_values = values + quadratic_form(batch.actions[0], steered, triangle)
            errors = q_targets - q_values
            losses = torch.where(near, 0.5 * errors.square(), 0.0)
            loss = weighted_mean(losses, batch) + (1.0 - beta) * kls.mean()
        return self.output(
            networks,
            loss,
            log_rhos,
            errors,
            q_values,
            kl_from_behaviour=kls,
            critic_loss=losses,
            value=values,
            abs_mean_action=mean.abs().mean(-1),
        )
