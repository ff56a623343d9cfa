"""Heads: maps from features to the statistics of a policy, or to a value.

Heads compute in the precision of their weights (float32) even under autocast: log ratios, and values around 1,000, need
more than bfloat16's three digits.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.mlp import ACTIVATIONS, orthogonal, width_behind
from laser.ops.distributions import DiagonalGaussian, Distribution
from laser.ops.popart import TargetStatistics

# A Gaussian policy is never narrower than this, so that densities and their ratios stay finite.
MIN_STD = 1e-3

# Gain of the policy's last layer. It is small, so that actions start about equally likely, with ratios about 1.
POLICY_GAIN = 0.01


class PreciseLinear(nn.Linear):
    """A linear layer that ignores autocast."""

    def forward(self, features: Tensor) -> Tensor:
        """Map [N, num_inputs] to [N, num_outputs] in the weight's dtype."""
        with torch.autocast(features.device.type, enabled=False):
            return F.linear(features.to(self.weight.dtype), self.weight, self.bias)


class LogitsHead(nn.Module):
    """Logits of one or several discrete choices.

    Args:
        num_features: width of the input.
        num_logits: number of logits of all choices together.
    """

    def __init__(self, num_features: int, num_logits: int):
        super().__init__()
        self.linear = orthogonal(PreciseLinear(num_features, num_logits), POLICY_GAIN)

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        """Map [N, num_features] to {"logits": [N, num_logits]}."""
        return {"logits": self.linear(features)}


class GaussianHead(nn.Module):
    """A mean from the features, and a standard deviation that is a parameter, the same in every state.

    `std = MIN_STD + exp(log_std)`: bounded below without a clamp, which would stop the gradient for good.

    Args:
        num_features: width of the input.
        num_dimensions: d, dimension of an action.
        initial_std: standard deviation at the start.
    """

    def __init__(self, num_features: int, num_dimensions: int, initial_std: float):
        super().__init__()
        self.linear = orthogonal(PreciseLinear(num_features, num_dimensions), POLICY_GAIN)
        initial = math.log(max(initial_std - MIN_STD, MIN_STD))
        self.log_std = nn.Parameter(torch.full((num_dimensions,), initial))

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        """Map [N, num_features] to {"mean": [N, d], "std": [N, d]}."""
        mean = self.linear(features)
        return {"mean": mean, "std": (MIN_STD + self.log_std.exp()).expand_as(mean)}


class ValueHead(nn.Module):
    """A state value.

    Args:
        num_features: width of the input.
    """

    def __init__(self, num_features: int):
        super().__init__()
        self.linear = orthogonal(PreciseLinear(num_features, 1), 1.0)

    def forward(self, features: Tensor) -> Tensor:
        """Map [N, num_features] to [N]."""
        values: Tensor = self.linear(features)
        return values.squeeze(-1)


class AdvantageHead(nn.Module):
    """A number for a state and a continuous action: one hidden layer over features and action.

    Many actions of one state cost little, since the features' part of the hidden layer is computed once.

    Args:
        num_features: width of the features.
        num_dimensions: d, dimension of an action.
        size: width of the hidden layer.
        activation: activation of the hidden layer, a key of `ACTIVATIONS`.
    """

    def __init__(self, num_features: int, num_dimensions: int, size: int, activation: str):
        super().__init__()
        self.of_features = orthogonal(PreciseLinear(num_features, size), math.sqrt(2.0))
        self.of_actions = orthogonal(PreciseLinear(num_dimensions, size, bias=False), math.sqrt(2.0))
        self.activation = ACTIVATIONS[activation]()
        self.linear = orthogonal(PreciseLinear(width_behind(activation, size), 1), POLICY_GAIN)

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        """Map [..., num_features] and K actions per state, [K, ..., d], to [K, ...]."""
        hidden = self.activation(self.of_features(features) + self.of_actions(actions))
        advantages: Tensor = self.linear(hidden)
        return advantages.squeeze(-1)


class PopArtHead(nn.Module):
    """A state value per task: a normalised value, scaled by the statistics of the task's targets.

    The statistics are buffers, so they are published, saved and copied with the weights.

    Args:
        num_features: width of the input.
        num_tasks: K, number of tasks.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, num_features: int, num_tasks: int):
        super().__init__()
        self.linear = orthogonal(PreciseLinear(num_features, num_tasks), 1.0)
        self.register_buffer("mean", torch.zeros(num_tasks))
        self.register_buffer("variance", torch.ones(num_tasks))

    @property
    def statistics(self) -> TargetStatistics:
        """Statistics of the targets so far."""
        return TargetStatistics(self.mean, self.variance)

    def forward(self, features: Tensor) -> Tensor:
        """Map [N, num_features] to values on the scale of the rewards, [N, K]."""
        values: Tensor = self.statistics.scale * self.linear(features) + self.mean
        return values


def make_policy_head(num_features: int, distribution: Distribution, initial_std: float) -> nn.Module:
    """Return a head that computes the statistics of a distribution."""
    if isinstance(distribution, DiagonalGaussian):
        return GaussianHead(num_features, distribution.num_dimensions, initial_std)
    return LogitsHead(num_features, distribution.sizes["logits"])
