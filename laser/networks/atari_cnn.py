"""The small Atari net of Mnih et al. 2016."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.mlp import orthogonal
from laser.networks.pixels import PixelConv2d, flatten_pixels

NUM_FEATURES = 256


class AtariCNN(nn.Module):
    """16 filters 8x8 stride 4, 32 filters 4x4 stride 2, 256 units, rectified.

    Weights start orthogonal with gain sqrt(2), biases at 0.

    Args:
        channels: channels of a frame stack.
        height: pixels.
        width: pixels.

    Raises:
        ValueError: the frames are too small for the filters.

    Source:
        Mnih et al. 2016 (A3C), section 8; IMPALA's "shallow" net.
    """

    def __init__(self, channels: int, height: int, width: int):
        super().__init__()
        rows, columns = _after(_after(height, 8, 4), 4, 2), _after(_after(width, 8, 4), 4, 2)
        if rows < 1 or columns < 1:
            raise ValueError(
                f"network.torso: atari_cnn needs frames of at least 20x20 pixels, got {height}x{width}; "
                "use cells_cnn or impala_resnet"
            )
        gain = math.sqrt(2.0)
        self.conv1 = orthogonal(PixelConv2d(channels, 16, 8, stride=4), gain)
        self.conv2 = orthogonal(nn.Conv2d(16, 32, 4, stride=2), gain)
        self.linear = orthogonal(nn.Linear(32 * rows * columns, NUM_FEATURES), gain)
        self.num_features = NUM_FEATURES

    def forward(self, frames: Tensor) -> Tensor:
        """Map uint8 [N, channels, height, width] to [N, 256]."""
        features = F.relu(self.conv1(frames))
        features = F.relu(self.conv2(features))
        return F.relu(self.linear(flatten_pixels(features)))


def _after(size: int, kernel: int, stride: int) -> int:
    return (size - kernel) // stride + 1
