"""Target networks: copies that follow the networks in training."""

from __future__ import annotations

import copy

import torch
from torch import nn

from laser.algorithms.base import Target
from laser.flat_parameters import FlatParameters


class TargetNetwork:
    """A copy of the networks that follows them: buffers are copied, parameters are copied or averaged.

    Args:
        networks: the networks to follow.
        target: rate and period.
    """

    def __init__(self, networks: nn.Module, target: Target):
        self.networks = copy.deepcopy(networks).requires_grad_(False)
        self.parameters = FlatParameters(self.networks)
        self.rate = target.rate
        self.period = target.period

    @property
    def is_averaged(self) -> bool:
        """Whether it is a moving average of the networks, and not a copy made now and then."""
        return self.rate < 1.0

    @torch.no_grad()
    def follow(self, source: FlatParameters, number: int) -> None:
        """Move if it is due after update `number` of the networks; the first update is 1."""
        if number % self.period:
            return
        if self.rate == 1.0:
            self.parameters.vector.copy_(source.vector)
            return
        self.parameters.trainable.lerp_(source.trainable, self.rate)
        self.parameters.buffers.copy_(source.buffers)
