"""Transformations of an environment's rewards before learning."""

from __future__ import annotations

import torch
from torch import Tensor


def clip_rewards(rewards: Tensor) -> Tensor:
    """Return rewards clipped to [-1, 1], any shape."""
    return rewards.clamp(-1.0, 1.0)


def asymmetric_rewards(rewards: Tensor) -> Tensor:
    """Squash rewards optimistically: 5 tanh(r / 5) for gains, 0.3 times that for losses; any shape.

    Small gains keep their size, and an agent dares to explore where losses are frequent.

    Source:
        IMPALA's published code for DeepMind Lab. The caption in the paper prints another form, 0.3 tanh(r) and
        5 tanh(r), in which small gains count five times.
    """
    squashed = torch.tanh(rewards / 5.0)
    return 5.0 * torch.where(rewards < 0.0, 0.3 * squashed, squashed)
