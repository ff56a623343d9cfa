"""Base class of algorithms that learn from single replayed steps, for any kind of actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from laser.algorithms.actions import check_actions
from laser.algorithms.base import Algorithm, AlgorithmConfig, Fraction
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.config import NetworkConfig
from laser.specs import ContinuousActions, DiscreteActions, EnvironmentSpec


@dataclass(frozen=True)
class StepConfig(AlgorithmConfig):
    """Settings of algorithms that learn from single steps."""

    view: ClassVar[Literal["unrolls", "steps"]] = "steps"

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 3e-4
    optimizer: Annotated[Literal["rmsprop", "adam"], "gradient rule"] = "adam"
    optimizer_epsilon: Annotated[float, Bounds(above=0.0), "added to the root of the second moment"] = 1e-8
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = float("inf")
    batch_size: Annotated[int, Bounds(least=1), "steps per learner step"] = 256
    replay_fraction: Annotated[float, Fraction, "share of each batch that is drawn from the replay; 1 here"] = 1.0

    def problems(self) -> list[Problem]:
        """Return mistakes that join several fields."""
        if self.replay_fraction != 1.0:
            wrong = f"must be 1: {self.name} learns from single replayed steps, got {self.replay_fraction:g}"
            return [Problem("replay-fraction", wrong, "leave it out")]
        return []

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`: of the network's settings only those of the torso have an effect."""
        why = f"{self.name} has critics and policies of its own"
        return super().warnings(network, remover) + find_unused(
            network, "network", ("separate_critic", "initial_std"), why, "leave it out"
        )


@dataclass(frozen=True)
class BootstrapConfig(StepConfig):
    """Settings of algorithms whose targets are n-step rewards and a bootstrap value."""

    num_steps: Annotated[int, Bounds(least=1), "env steps whose rewards are summed before the bootstrap"] = 1

    @property
    def steps_per_item(self) -> int:
        """See `AlgorithmConfig.steps_per_item`."""
        return self.num_steps


class StepAlgorithm(Algorithm):
    """Checks spaces and network, and declares the loss's numbers per step; a subclass adds acting and the loss.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.

    Raises:
        ValueError: actions are of an unsupported kind, or the network has a memory or is a user's own.
    """

    config: StepConfig
    action_kind: ClassVar[type[ContinuousActions] | type[DiscreteActions]] = ContinuousActions
    """Supported kinds of actions."""
    per_step: tuple[str, ...] = ("td_error", "q")

    def __init__(self, config: StepConfig, environment: EnvironmentSpec, network: NetworkConfig):
        check_actions(config.name, self.action_kind, environment)
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

    @property
    def num_dimensions(self) -> int:
        """Dimension of continuous actions."""
        actions = self.environment.actions
        assert isinstance(actions, ContinuousActions), "discrete actions have none"
        return len(actions.low)


def weighted_mean(terms: Tensor, batch: Batch) -> Tensor:
    """Return the mean over steps of terms [..., B], weighted by the correction of their draws."""
    return (terms * batch.importance_weights).mean()


@torch.no_grad()
def glorot_(layers: nn.Module) -> None:
    """Initialise linear layers as the ReF-ER paper does: Glorot uniform, biases 0.

    The paper prints the bound as 6 / sqrt(fan_in + fan_out), 2.45 times that of Glorot, which it cites; likely a slip.
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
