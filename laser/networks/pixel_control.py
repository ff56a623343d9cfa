"""The head of pixel control: action values of every cell of the picture."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from laser.ops.action_masks import mean_of_allowed

CHANNELS = 32


class PixelControlHead(nn.Module):
    """A linear layer to a small picture of 32 channels, then dueling transposed convolutions 4x4 stride 2.

        Q(a) = V + A(a) - mean_a A(a)   in each cell

    Args:
        num_features: width of the input.
        num_actions: number of discrete actions.
        rows: cells from top to bottom, at least 1.
        columns: cells from left to right, at least 1.

    Source:
        Jaderberg et al. 2017 (UNREAL), appendix B.
    """

    def __init__(self, num_features: int, num_actions: int, rows: int, columns: int):
        super().__init__()
        # A transposed convolution 4x4 stride 2 maps n cells to 2n + 2; one cell too many is cut off at the end.
        self._inner = (max(1, (rows - 1) // 2), max(1, (columns - 1) // 2))
        self._rows, self._columns = rows, columns
        self.linear = nn.Linear(num_features, CHANNELS * self._inner[0] * self._inner[1])
        self.value = nn.ConvTranspose2d(CHANNELS, 1, 4, stride=2)
        self.advantage = nn.ConvTranspose2d(CHANNELS, num_actions, 4, stride=2)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map [N, num_features] to [N, num_actions, rows, columns].

        Args:
            features: of N states.
            mask: bool [N, num_actions], allowed actions: the mean is over them; None: all.
        """
        picture = F.relu(self.linear(features)).unflatten(-1, (CHANNELS, *self._inner))
        advantages = self.advantage(picture)
        if mask is None:
            means = advantages.mean(1, keepdim=True)
        else:
            means = mean_of_allowed(advantages.movedim(1, -1), mask[:, None, None]).movedim(-1, 1)
        values: Tensor = self.value(picture) + advantages - means
        return values[..., : self._rows, : self._columns]
