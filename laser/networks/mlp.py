"""A multilayer perceptron, for vector observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


class _SoftsignFunction(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x / (x.abs() + 1.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        slopes: Tensor = (1.0 - y.abs()).square_()
        return gradients[0] * slopes


class Softsign(nn.Module):
    """x / (1 + |x|), with its derivative (1 - |y|)^2 written out: torch's own needs three operations."""

    def forward(self, x: Tensor) -> Tensor:
        """Map elementwise."""
        y: Tensor = _SoftsignFunction.apply(x)  # type: ignore[no-untyped-call]
        return y


class ConcatenatedReLU(nn.Module):
    """[max(x, 0), max(-x, 0)], twice as wide as x: a negative unit appears in the second half.

    Args:
        axis: axis of the concatenation.

    Source:
        Shang et al. 2016 (CReLU).
    """

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., n, ...] to [..., 2n, ...]."""
        return torch.cat([x, -x], self.axis).relu_()


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "softsign": Softsign,
    "crelu": ConcatenatedReLU,
}


class FirstLinear(nn.Linear):
    """A linear layer that computes in the precision of its input, even under autocast.

    bfloat16 is too coarse for raw observations: it rounds a height of 1.25 m to 8 mm. That error is the same for all
    units, while the rounding errors of hidden units in later layers mostly cancel.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Map [N, num_inputs] to [N, num_outputs] in the input's dtype."""
        with torch.autocast(features.device.type, enabled=False):
            bias = None if self.bias is None else self.bias.to(features.dtype)
            return F.linear(features, self.weight.to(features.dtype), bias)


class MLP(nn.Module):
    """Linear layers with an activation after each. The first one does not round its input, see `FirstLinear`.

    Weights start orthogonal with gain sqrt(2) and biases at 0, so that activations and gradients keep their size
    through the layers.

    Args:
        num_inputs: width of the input.
        hidden_sizes: widths of the layers; the last is `num_features`, or half of it with "crelu", which doubles all
            widths. Empty passes the input through.
        activation: a key of `ACTIVATIONS`.
    """

    def __init__(self, num_inputs: int, hidden_sizes: Sequence[int], activation: str):
        super().__init__()
        layers: list[nn.Module] = []
        width = num_inputs
        for number, size in enumerate(hidden_sizes):
            linear = nn.Linear(width, size) if number else FirstLinear(width, size)
            layers += [orthogonal(linear, math.sqrt(2.0)), ACTIVATIONS[activation]()]
            width = width_behind(activation, size)
        self.layers = nn.Sequential(*layers)
        self.num_features = width

    def forward(self, vectors: Tensor) -> Tensor:
        """Map [N, num_inputs] to [N, num_features]."""
        features: Tensor = self.layers(vectors)
        return features


def width_behind(activation: str, size: int) -> int:
    """Return the width of the output of an activation, a key of `ACTIVATIONS`, for an input of width `size`."""
    return 2 * size if activation == "crelu" else size


def orthogonal(layer: Layer, gain: float) -> Layer:
    """Fill a layer with an orthogonal weight times `gain` and a zero bias; return it."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
