"""Convolutional nets as rows of one table: filters, and units behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.mlp import orthogonal
from laser.networks.pixels import PixelConv2d, flatten_pixels, size_behind
from laser.networks.settings import Filters
from laser.specs import FramesSpec

SMALLEST_ATARI = 20
"""Pixels of the shortest side that `atari_cnn` needs."""


@dataclass(frozen=True)
class ConvNetSpec:
    """Layers of a convolutional net.

    Args:
        filters: of each layer.
        num_units: width of the layer behind them; 0: none, for heads that have hidden layers of their own.
        orthogonal: start orthogonal with gain sqrt(2), biases at 0; else torch's default, uniform and scaled by fan-in.
    """

    filters: Filters
    num_units: int = 0
    orthogonal: bool = True


CONV_NETS: dict[str, ConvNetSpec] = {
    # Mnih et al. 2016 (A3C), section 8; IMPALA's "shallow" net.
    "atari_cnn": ConvNetSpec(((16, 8, 4), (32, 4, 2)), 256),
    # Mnih et al. 2015 (DQN), methods; ACER on Atari.
    "nature_cnn": ConvNetSpec(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    # Young and Tian 2019 (MinAtar), for pictures of a few cells.
    "minatar_cnn": ConvNetSpec(((16, 3, 1),), 128),
    "cells_cnn": ConvNetSpec(((16, 3, 1),), orthogonal=False),
    # Data-efficient Rainbow: van Hasselt et al. 2019, appendix E.
    "der_cnn": ConvNetSpec(((32, 5, 5), (64, 5, 5)), orthogonal=False),
}


class ConvNet(nn.Module):
    """Rectified convolutions, and a layer of rectified units if the net has one.

    Args:
        name: a key of `CONV_NETS`, or "conv"; used in messages.
        layers: filters and units.
        frames: spec of the pictures.
        layer_norm: normalise the units as one layer before they are rectified.

    Raises:
        ValueError: the pictures are too small for the filters.
    """

    def __init__(self, name: str, layers: ConvNetSpec, frames: FramesSpec, *, layer_norm: bool = False):
        super().__init__()
        height, width = frames.frame_shape[:2]
        rows, columns = size_behind(name, [(size, stride) for _, size, stride in layers.filters], height, width)
        channels, convolutions = frames.channels, []
        for index, (num_filters, size, stride) in enumerate(layers.filters):
            layer = (
                nn.Conv2d(channels, num_filters, size, stride=stride)
                if index
                else PixelConv2d(channels, num_filters, size, stride=stride, high=frames.high)
            )
            convolutions.append(orthogonal(layer, math.sqrt(2.0)) if layers.orthogonal else layer)
            channels = num_filters
        self.num_features = channels * rows * columns
        self._has_units = bool(layers.num_units)
        # Two kinds of names, as in the checkpoints of both kinds of nets.
        name_of = "conv{}".format if self._has_units else "layers.{}".format
        self._names = [name_of(index + self._has_units) for index in range(len(convolutions))]
        if not self._has_units:
            self.layers = nn.ModuleList(convolutions)
            return
        for place, layer in zip(self._names, convolutions, strict=True):
            self.add_module(place, layer)
        linear = nn.Linear(self.num_features, layers.num_units)
        self.linear = orthogonal(linear, math.sqrt(2.0)) if layers.orthogonal else linear
        self.norm = nn.LayerNorm(layers.num_units) if layer_norm else nn.Identity()
        self.num_features = layers.num_units

    def forward(self, frames: Tensor) -> Tensor:
        """Map uint8 [N, channels, height, width] to [N, num_features]."""
        for name in self._names:
            frames = F.relu(self.get_submodule(name)(frames))
        features = flatten_pixels(frames)
        return F.relu(self.norm(self.linear(features))) if self._has_units else features
