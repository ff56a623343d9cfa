"""The small Atari net of Mnih et al. 2016."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.mlp import orthogonal
from laser.networks.pixels import PixelConv2d, flatten_pixels, size_behind

NUM_FEATURES = 256


class AtariCNN(nn.Module):
    """16 filters 8x8 stride 4, 32 filters 4x4 stride 2, 256 units, rectified.

    Weights start orthogonal with gain sqrt(2), biases at 0.

    Args:
        channels: channels of a frame stack.
        height: pixels.
        width: pixels.
        layer_norm: normalise the 256 units as one layer before they are rectified.

    Raises:
        ValueError: the frames are too small for the filters.

    Source:
        Mnih et al. 2016 (A3C), section 8; IMPALA's "shallow" net.
    """

    def __init__(self, channels: int, height: int, width: int, *, layer_norm: bool = False):
        super().__init__()
        rows, columns = size_behind("atari_cnn", ((8, 4), (4, 2)), height, width)
        gain = math.sqrt(2.0)
        self.conv1 = orthogonal(PixelConv2d(channels, 16, 8, stride=4), gain)
        self.conv2 = orthogonal(nn.Conv2d(16, 32, 4, stride=2), gain)
        self.linear = orthogonal(nn.Linear(32 * rows * columns, NUM_FEATURES), gain)
        self.norm = nn.LayerNorm(NUM_FEATURES) if layer_norm else nn.Identity()
        self.num_features = NUM_FEATURES

    def forward(self, frames: Tensor) -> Tensor:
        """Map uint8 [N, channels, height, width] to [N, 256]."""
        features = F.relu(self.conv1(frames))
        features = F.relu(self.conv2(features))
        return F.relu(self.norm(self.linear(flatten_pixels(features))))
