"""The Reactor's Atari net: three convolutions and a layer of units, each followed by a concatenated rectifier."""

from __future__ import annotations

import math

from torch import Tensor, nn

from laser.networks.mlp import MLP, ConcatenatedReLU, orthogonal
from laser.networks.pixels import PixelConv2d, flatten_pixels, size_behind
from laser.specs import FramesSpec

NUM_UNITS = 128
_CHANNELS = 1


class CReLUCNN(nn.Module):
    """16 filters 8x8 stride 4, 32 filters 4x4 stride 2, 32 filters 3x3, 128 units; rectifiers double all widths.

    In the paper's table 1 some rows are shifted by one against the others; this reading is the consistent one.

    Args:
        frames: spec of the pictures.

    Raises:
        ValueError: the frames are too small for the filters.

    Source:
        Gruslys et al. 2017 (the Reactor), table 1.
    """

    def __init__(self, frames: FramesSpec):
        super().__init__()
        height, width = frames.frame_shape[:2]
        rows, columns = size_behind("crelu_cnn", ((8, 4), (4, 2), (3, 1)), height, width)
        gain = math.sqrt(2.0)
        self.layers = nn.Sequential(
            orthogonal(PixelConv2d(frames.channels, 16, 8, stride=4, high=frames.high), gain),
            ConcatenatedReLU(_CHANNELS),
            orthogonal(nn.Conv2d(32, 32, 4, stride=2), gain),
            ConcatenatedReLU(_CHANNELS),
            orthogonal(nn.Conv2d(64, 32, 3), gain),
            ConcatenatedReLU(_CHANNELS),
        )
        self.units = MLP(64 * rows * columns, (NUM_UNITS,), "crelu")
        self.num_features = self.units.num_features

    def forward(self, frames: Tensor) -> Tensor:
        """Map uint8 [N, channels, height, width] to [N, 256]."""
        features: Tensor = self.units(flatten_pixels(self.layers(frames)))
        return features
