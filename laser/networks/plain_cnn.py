"""Torsos of rectified convolutions alone, for heads that have hidden layers of their own."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.pixels import PixelConv2d, flatten_pixels, size_behind

# By name: (filters, size, stride) of each layer.
PLAIN_CNNS: dict[str, tuple[tuple[int, int, int], ...]] = {
    # Data-efficient Rainbow: van Hasselt et al. 2019, appendix E.
    "der_cnn": ((32, 5, 5), (64, 5, 5)),
    # For pictures of a few cells: Young and Tian 2019 (MinAtar).
    "cells_cnn": ((16, 3, 1),),
}


class PlainCNN(nn.Module):
    """The convolutions of `PLAIN_CNNS`; weights keep torch's default, uniform and scaled by the fan-in.

    Args:
        name: a key of `PLAIN_CNNS`.
        channels: channels of a frame stack.
        height: pixels.
        width: pixels.

    Raises:
        ValueError: the frames are too small for the filters.
    """

    def __init__(self, name: str, channels: int, height: int, width: int):
        super().__init__()
        kernels = [(size, stride) for _, size, stride in PLAIN_CNNS[name]]
        rows, columns = size_behind(name, kernels, height, width)
        layers: list[nn.Module] = []
        for num_filters, size, stride in PLAIN_CNNS[name]:
            kind = nn.Conv2d if layers else PixelConv2d
            layers.append(kind(channels, num_filters, size, stride=stride))
            channels = num_filters
        self.layers = nn.ModuleList(layers)
        self.num_features = channels * rows * columns

    def forward(self, frames: Tensor) -> Tensor:
        """Map uint8 [N, channels, height, width] to [N, num_features]."""
        for layer in self.layers:
            frames = F.relu(layer(frames))
        return flatten_pixels(frames)
