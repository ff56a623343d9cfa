"""Base class of Gaussian policies that learn from single steps: ReF-ER, and normalisation by replay statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import torch
from torch import Tensor, nn

from laser.algorithms.base import Fraction, WriteOptions
from laser.algorithms.normalization import Normalizer
from laser.algorithms.refer import Refer, ReferConfig, ReferState
from laser.algorithms.step_learning import StepAlgorithm, StepConfig
from laser.config import Bounds, Problem, find_unused
from laser.networks.config import NetworkConfig
from laser.ops.distributions import DiagonalGaussian
from laser.ops.refer import near_policy
from laser.specs import ArraySpec, EnvironmentSpec


@dataclass(frozen=True)
class GaussianStepConfig(StepConfig):
    """Settings of Gaussian policies that learn from single steps; the defaults are the ReF-ER paper's."""

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 1e-4
    discount: Annotated[float, Fraction, "gamma, per env step"] = 0.995
    normalize_observations: Annotated[
        bool, "standardise observations by mean and deviation over the replay when learning starts"
    ] = True
    normalize_rewards: Annotated[bool, "divide rewards by their root mean square over the replay"] = True
    reward_interval: Annotated[int, Bounds(least=1), "learner steps between measurements of rewards' size"] = 1000
    truncation: Annotated[
        float, Bounds(above=0.0), "actions are drawn within this many standard deviations of the mean"
    ] = 3.0
    refer: Annotated[ReferConfig, "remember-and-forget experience replay"] = field(default_factory=ReferConfig)

    @property
    def counts_far_policy(self) -> bool:
        """See `AlgorithmConfig.counts_far_policy`."""
        return True

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        if remover == "far_policy" and not self.refer.enabled:
            wrong = "far_policy removes episodes far from the policy although algorithm.refer.enabled is false"
            found.append(Problem("replay.remover", wrong, "use fifo for plain replay"))
        found += self.refer.warnings(remover)
        if not self.refer.enabled:
            names, remedy = ("tolerance", "initial_beta"), "use algorithm.refer.enabled true"
            found += find_unused(self.refer, "algorithm.refer", names, "ReF-ER is off", remedy)
        if not self.normalize_rewards:
            why, remedy = "rewards are not scaled", "use algorithm.normalize-rewards true"
            found += find_unused(self, "algorithm", ("reward_interval",), why, remedy)
        return found

    def rate_factor(self, num_learner_steps: int) -> float:
        """See `AlgorithmConfig.rate_factor`."""
        return Refer(self.refer).rate_factor(num_learner_steps)


class GaussianStepNetworks(nn.Module):
    """Networks with the state of ReF-ER and of normalisation; a subclass adds layers."""

    def __init__(self, environment: EnvironmentSpec, config: GaussianStepConfig):
        super().__init__()
        self.refer = ReferState(config.refer)
        self.normalizer = Normalizer(environment.observations if config.normalize_observations else {})


class GaussianStepAlgorithm(StepAlgorithm):
    """ReF-ER and normalisation for single steps of Gaussian policies; a subclass adds acting and the loss.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.

    Raises:
        ValueError: see `StepAlgorithm`.
    """

    config: GaussianStepConfig
    needs_statistics = True

    def __init__(self, config: GaussianStepConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        self.distribution = DiagonalGaussian(self.num_dimensions)
        self.refer = Refer(config.refer)
        self.columns = (self.refer.column,)

    @property
    def behaviour(self) -> dict[str, ArraySpec]:
        """See `Algorithm.behaviour`."""
        return {name: ArraySpec((size,)) for name, size in self.distribution.sizes.items()}

    def observe(self, networks: nn.Module, statistics: Mapping[str, Any], num_updates: int) -> dict[str, Tensor]:
        """See `Algorithm.observe`: observations are measured once, rewards and far-policy steps repeatedly."""
        networks = cast(GaussianStepNetworks, networks)
        updates = self.refer.observe(networks.refer, statistics, num_updates)
        measured: dict[str, Tensor] = {}
        if self.config.normalize_observations and num_updates == 0:
            measured |= networks.normalizer.observation_updates(statistics)
        if self.config.normalize_rewards and num_updates % self.config.reward_interval == 0:
            measured |= networks.normalizer.reward_updates(statistics)
        return updates | {f"normalizer.{name}": value for name, value in measured.items()}

    def write_options(self, num_updates: int, discount: float) -> WriteOptions:
        """See `Algorithm.write_options`."""
        return WriteOptions(far_bounds=self.refer.far_bounds(num_updates))

    @torch.no_grad()
    def metrics(self, networks: GaussianStepNetworks, log_rhos: Tensor, **values: Tensor) -> dict[str, Tensor]:
        """Return the state of ReF-ER, the rewards' size, and means over the steps of a batch.

        Args:
            networks: the networks before the update.
            log_rhos: [B].
            **values: [B] by name.
        """
        near = near_policy(log_rhos, networks.refer.c_max)
        averages = torch.stack([*values.values(), (~near).to(log_rhos.dtype)]).mean(-1)
        own = {
            "refer_beta": networks.refer.beta.clone(),
            "refer_c_max": networks.refer.c_max.clone(),
            "reward_scale": networks.normalizer.reward_scale.clone(),
        }
        return dict(zip([*values, "far_fraction"], averages.unbind(), strict=True)) | own
