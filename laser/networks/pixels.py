"""Raw frames as input of convolutional nets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_CHANNELS_AT_ONCE = defaultdict(lambda: 1, cuda=8)  # by type of device


class PixelConv2d(nn.Conv2d):
    """The first convolution of a net: takes pixels in [0, high] and acts as if they were scaled to [0, 1].

    Frames are cast and laid out channels-last in a single pass; 1/high multiplies the small weight instead of the
    large input. That saves a copy of the batch, and the cast of uint8 is exact even in bfloat16 (it holds all integers
    to 256). Pictures of floats may hold any numbers, so they are convolved in float32 whatever autocast says.

    On a GPU that computes in bfloat16, channels of zeros complete each group of eight: cuDNN's matrix units read eight
    at once. For 3,360 frames of 84 x 84 and 3 x 3 filters on an H100, a forward pass took 18.4 ms with 4 channels, and
    2.5 ms with 8.

    Args:
        arguments: of `nn.Conv2d`.
        high: largest value of a pixel.
        options: of `nn.Conv2d`.
    """

    def __init__(self, *arguments: Any, high: int = 255, **options: Any):
        super().__init__(*arguments, **options)
        self._scale = 1.0 / high

    def forward(self, frames: Tensor) -> Tensor:
        """Map uint8 or float [N, channels, height, width] to [N, out_channels, ...]."""
        kind = frames.device.type
        if not (frames.is_floating_point() and torch.is_autocast_enabled(kind)):
            return self._convolved(frames)
        with torch.autocast(kind, enabled=False):
            return self._convolved(frames)

    def _convolved(self, frames: Tensor) -> Tensor:
        kind = frames.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.weight.dtype
        weight = self.weight * self._scale
        missing = -frames.shape[1] % _CHANNELS_AT_ONCE[kind]
        if missing and dtype == torch.bfloat16:
            frames, weight = (F.pad(each, (0, 0, 0, 0, 0, missing)) for each in (frames, weight))
        pixels = frames.to(dtype, memory_format=torch.channels_last)
        return F.conv2d(pixels, weight, self.bias, self.stride, self.padding)


@torch.no_grad()
def center_first_filters(torsos: Iterable[nn.Module]) -> None:
    """Subtract the mean of every filter of the first convolutions, so that an even picture gives only the bias.

    Most of a game's picture is background. Filters with a response to it add one large constant to all features, which
    hides a ball of two pixels, and keep half of the units below zero for good.
    """
    for torso in torsos:
        for layer in torso.modules():
            if isinstance(layer, PixelConv2d):
                layer.weight -= layer.weight.mean((1, 2, 3), keepdim=True)


def size_behind(torso: str, layers: Sequence[tuple[int, int]], height: int, width: int) -> tuple[int, int]:
    """Return rows and columns of the output of convolutions without padding.

    Args:
        torso: name of the torso, for the message.
        layers: (size, stride) of each layer.
        height: pixels.
        width: pixels.

    Raises:
        ValueError: the frames are too small for the filters.
    """
    rows, columns, least = height, width, 1
    for size, stride in layers:
        rows, columns = (rows - size) // stride + 1, (columns - size) // stride + 1
    for size, stride in reversed(layers):
        least = (least - 1) * stride + size
    if min(height, width) < least:
        filters = "name smaller network.filters, such as (16,3,1), or " if torso == "conv" else ""
        raise ValueError(
            f"network.torso: {torso} needs frames of at least {least}x{least} pixels, got {height}x{width}; "
            f"{filters}use minatar_cnn, cells_cnn or impala_resnet"
        )
    return rows, columns


def flatten_pixels(features: Tensor) -> Tensor:
    """Flatten [N, channels, height, width] to [N, size] without a copy where the memory is channels-last."""
    return features.permute(0, 2, 3, 1).flatten(1)
