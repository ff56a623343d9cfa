"""IMPALA's residual net."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.pixels import PixelConv2d, flatten_pixels
from laser.specs import FramesSpec

STAGE_CHANNELS = (16, 32, 32)
NUM_FEATURES = 256


class ImpalaResNet(nn.Module):
    """Three stages of conv 3x3, max-pool 3x3 stride 2 and two residual blocks; then 256 units, rectified.

    Weights keep torch's default (uniform, scaled by the fan-in): an orthogonal start with gain sqrt(2) would double
    the variance at each of the six residual sums.

    Args:
        frames: spec of the pictures.
        width_factor: multiplies the channels of every stage; LASER's Atari agents use 4.
        layer_norm: normalise the 256 units as one layer before they are rectified.

    Source:
        Espeholt et al. 2018 (IMPALA), figure 3; Schmitt et al. 2020 (LASER), appendix.
    """

    def __init__(self, frames: FramesSpec, width_factor: int = 1, *, layer_norm: bool = False):
        super().__init__()
        stages: list[nn.Module] = []
        channels, (rows, columns) = frames.channels, frames.frame_shape[:2]
        for index, stage_channels in enumerate(STAGE_CHANNELS):
            num_outputs = stage_channels * width_factor
            first = PixelConv2d(channels, num_outputs, 3, padding=1, high=frames.high) if index == 0 else None
            stages.append(_Stage(first or nn.Conv2d(channels, num_outputs, 3, padding=1)))
            channels = stage_channels * width_factor
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        self.stages = nn.Sequential(*stages)
        self.linear = nn.Linear(channels * rows * columns, NUM_FEATURES)
        self.norm = nn.LayerNorm(NUM_FEATURES) if layer_norm else nn.Identity()
        self.num_features = NUM_FEATURES

    def forward(self, frames: Tensor) -> Tensor:
        """Map uint8 [N, channels, height, width] to [N, 256]."""
        features = F.relu(self.stages(frames))
        return F.relu(self.norm(self.linear(flatten_pixels(features))))


class _Stage(nn.Module):
    def __init__(self, conv: nn.Conv2d):
        super().__init__()
        self.conv = conv
        self.blocks = nn.Sequential(_ResidualBlock(conv.out_channels), _ResidualBlock(conv.out_channels))

    def forward(self, features: Tensor) -> Tensor:
        pooled: Tensor = self.blocks(F.max_pool2d(self.conv(features), 3, stride=2, padding=1))
        return pooled


class _ResidualBlock(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, features: Tensor) -> Tensor:
        change: Tensor = self.conv2(F.relu(self.conv1(F.relu(features))))
        return features + change
