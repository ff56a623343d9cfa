"""Several small nets side by side: the same layers with different weights, one batched product per layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from laser.networks.mlp import ACTIVATIONS, width_behind


class ParallelMLP(nn.Module):
    """K nets of linear layers with activations between them, on the same input.

    Weights and biases start uniform within +- 1 / sqrt(width of the layer's input), as torch's own layers do. The first
    layer computes in the precision of its input (see `laser.networks.mlp.FirstLinear`); the last one ignores autocast,
    since values around 1,000 need more than bfloat16's three digits.

    Args:
        num_nets: K.
        num_inputs: width of the input.
        hidden_sizes: widths of the hidden layers.
        activation: a key of `ACTIVATIONS`.
    """

    def __init__(self, num_nets: int, num_inputs: int, hidden_sizes: Sequence[int], activation: str):
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        num_in = num_inputs
        for num_out in (*hidden_sizes, 1):
            for items, rows in ((self.weights, num_in), (self.biases, 1)):
                item = torch.empty(num_nets, rows, num_out)
                nn.init.uniform_(item, -(num_in**-0.5), num_in**-0.5)
                items.append(nn.Parameter(item))
            num_in = width_behind(activation, num_out)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, inputs: Tensor, num_nets: int | None = None) -> Tensor:
        """Map [N, num_inputs] to one number per net, [K, N]; `num_nets` limits the output to the first nets."""
        weights, biases = ([item[:num_nets] for item in items] for items in (self.weights, self.biases))
        features = inputs.expand(len(weights[0]), *inputs.shape)
        for number, (weight, bias) in enumerate(zip(weights[:-1], biases[:-1], strict=True), start=1):
            # The bias is added apart, so that it is compiled into the pass after the product: `baddbmm` would first
            # write it to every element.
            features = _as_precise_as_it_comes(features, weight) if number == 1 else torch.bmm(features, weight)
            features = features + bias.to(features.dtype)
            if number == len(weights) - 1:
                # Cast before the activation: otherwise compiled code keeps a mask of bytes for the backward pass, which
                # it writes one by one (0.3 ms for two nets of 256 and 256 inputs).
                features = features.to(weights[-1].dtype)
            features = self.activation(features)
        with torch.autocast(inputs.device.type, enabled=False):
            # Not a matrix product with a one-column matrix, which takes eight times as long.
            values: Tensor = (features.to(weights[-1].dtype) * weights[-1].mT).sum(-1) + biases[-1].squeeze(-1)
            return values


def _as_precise_as_it_comes(inputs: Tensor, weight: Tensor) -> Tensor:
    with torch.autocast(inputs.device.type, enabled=False):
        return torch.bmm(inputs, weight.to(inputs.dtype))


@torch.no_grad()
def uniform_(layers: nn.Module) -> nn.Module:
    """Initialise linear layers as torch does, uniform within +- 1 / sqrt(width of the input); return them."""
    for layer in layers.modules():
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            nn.init.uniform_(layer.weight, -bound, bound)
            nn.init.uniform_(layer.bias, -bound, bound)
    return layers
