"""What algorithms share that learn from single replayed steps with continuous actions: settings, ReF-ER, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from laser.algorithms.base import Algorithm, Fraction, WriteOptions
from laser.algorithms.normalization import Normalizer
from laser.algorithms.priorities import PRIORITY, PrioritizedConfig, priorities
from laser.algorithms.refer import RATIO, Refer, ReferConfig, ReferState
from laser.batch import Batch
from laser.config import Bounds, Problem
from laser.networks.config import NetworkConfig
from laser.ops.distributions import DiagonalGaussian
from laser.ops.refer import near_policy
from laser.specs import ArraySpec, ContinuousActions, EnvironmentSpec


@dataclass(frozen=True)
class StepConfig(PrioritizedConfig):
    """Settings of algorithms that learn from single steps; the defaults are the paper's."""

    view: ClassVar[Literal["unrolls", "steps"]] = "steps"

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 1e-4
    optimizer: Annotated[Literal["rmsprop", "adam"], "gradient rule"] = "adam"
    optimizer_epsilon: Annotated[float, Bounds(above=0.0), "added to the root of the second moment"] = 1e-8
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = float("inf")
    discount: Annotated[float, Fraction, "gamma, per env step"] = 0.995
    batch_size: Annotated[int, Bounds(least=1), "steps per learner step"] = 256
    replay_fraction: Annotated[float, Fraction, "share of each batch that is drawn from the replay; 1 here"] = 1.0
    normalize_observations: Annotated[
        bool, "standardise observations by mean and deviation over the replay when learning starts"
    ] = True
    normalize_rewards: Annotated[bool, "divide rewards by their root mean square over the replay"] = True
    reward_interval: Annotated[int, Bounds(least=1), "learner steps between two looks at the size of rewards"] = 1000
    importance_exponent: Annotated[
        float, Fraction, "with prioritize: how far the loss corrects for uneven draws; 0: not at all, 1: fully"
    ] = 0.5
    refer: Annotated[ReferConfig, "remember-and-forget experience replay"] = field(default_factory=ReferConfig)

    @property
    def counts_far_policy(self) -> bool:
        """See `AlgorithmConfig.counts_far_policy`."""
        return True

    def rate_factor(self, num_updates: int) -> float:
        """See `AlgorithmConfig.rate_factor`."""
        return Refer(self.refer).rate_factor(num_updates)

    def problems(self) -> list[Problem]:
        """Return mistakes that join several fields."""
        if self.replay_fraction != 1.0:
            wrong = f"must be 1: {self.name} learns from single replayed steps, got {self.replay_fraction:g}"
            return [Problem("replay-fraction", wrong, "leave it out")]
        return []


class StepNetworks(nn.Module):
    """Networks with the state of ReF-ER and of normalisation beside them; a subclass adds layers."""

    def __init__(self, environment: EnvironmentSpec, config: StepConfig):
        super().__init__()
        self.refer = ReferState(config.refer)
        self.normalizer = Normalizer(environment.observations)


class StepAlgorithm(Algorithm):
    """ReF-ER, normalisation and priorities for single steps of Gaussian policies; a subclass adds acting and the loss.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.

    Raises:
        ValueError: actions are not continuous, or the network has a memory or is one of the user's own.
    """

    config: StepConfig
    needs_statistics = True

    def __init__(self, config: StepConfig, environment: EnvironmentSpec, network: NetworkConfig):
        actions = environment.actions
        if not isinstance(actions, ContinuousActions):
            raise ValueError(
                f"algorithm: {config.name} needs continuous actions, {environment.id} has {type(actions).__name__}; "
                "use laser or impala"
            )
        if network.core != "none":
            raise ValueError(
                f"network.core: {config.name} learns from single steps, which a memory ({network.core}) does not fit; "
                "use none"
            )
        if type(network).make is not NetworkConfig.make:
            raise ValueError(
                f"network: {config.name} builds its own networks, got {type(network).__name__}; leave it out"
            )
        self.config = config
        self.environment = environment
        self.network = network
        self.num_dimensions = len(actions.low)
        self.distribution = DiagonalGaussian(self.num_dimensions)
        self.refer = Refer(config.refer)
        self.columns = (self.refer.column, *config.priority_columns)

    @property
    def behaviour(self) -> dict[str, ArraySpec]:
        """See `Algorithm.behaviour`."""
        return {name: ArraySpec((size,)) for name, size in self.distribution.sizes.items()}

    def observe(self, networks: nn.Module, statistics: Mapping[str, Any], num_updates: int) -> dict[str, Tensor]:
        """See `Algorithm.observe`: observations are measured once, rewards and far-policy steps again and again."""
        networks = cast(StepNetworks, networks)
        updates = self.refer.observe(networks.refer, statistics, num_updates)
        measured: dict[str, Tensor] = {}
        if self.config.normalize_observations and num_updates == 0:
            measured |= networks.normalizer.observation_updates(statistics)
        if self.config.normalize_rewards and num_updates % self.config.reward_interval == 0:
            measured |= networks.normalizer.reward_updates(statistics)
        return updates | {f"normalizer.{name}": value for name, value in measured.items()}

    def write_options(self, num_updates: int) -> WriteOptions:
        """See `Algorithm.write_options`."""
        return WriteOptions(far_bounds=self.refer.far_bounds(num_updates))

    @torch.no_grad()
    def metrics(self, networks: StepNetworks, log_rhos: Tensor, **values: Tensor) -> dict[str, Tensor]:
        """Return the state of ReF-ER and of the rewards' size, and means over the steps of a batch.

        Args:
            networks: as they were.
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

    def writes(self, rhos: Tensor, errors: Tensor) -> dict[str, Tensor]:
        """Return column writes [1, B] of ratios, and of priorities if they are wanted."""
        writes = {RATIO: rhos}
        if self.config.prioritize:
            writes[PRIORITY] = priorities(errors)
        return writes


def weighted_mean(terms: Tensor, batch: Batch) -> Tensor:
    """Return the mean over steps of terms [1, B], each times its draw's correction."""
    return (terms * batch.importance_weights).mean()


@torch.no_grad()
def glorot_(layers: nn.Module) -> None:
    """Fill linear layers as the paper does: Glorot uniform, biases 0.

    It prints the bound as 6 / sqrt(fan_in + fan_out), 2.45 times Glorot's, whom it cites; taken for a slip.
    """
    for layer in layers.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


@torch.no_grad()
def near_zero_(layer: nn.Linear) -> nn.Linear:
    """Fill an output layer so that it starts with outputs near 0; return it."""
    bound = 0.1 / float(np.sqrt(layer.in_features))
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer
