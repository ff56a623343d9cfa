"""Target networks: copies that follow the networks in training."""

from __future__ import annotations

import copy

import torch
from torch import nn

from laser.algorithms.base import Target
from laser.flat_parameters import FlatParameters


class TargetNetwork:
    """A copy of the networks that follows them; buffers are copied, parameters move by a share of the way.

    Args:
        networks: what is copied.
        target: how it follows.
    """

    def __init__(self, networks: nn.Module, target: Target):
        self.networks = copy.deepcopy(networks).requires_grad_(False)
        self.parameters = FlatParameters(self.networks)
        self.rate = target.rate
        self.period = target.period

    @property
    def is_averaged(self) -> bool:
        """Whether it is an average that moves a part of the way at a time, and not a copy made now and then."""
        return self.rate < 1.0

    @torch.no_grad()
    def follow(self, source: FlatParameters, number: int) -> None:
        """Move, if update number `number` of the networks (the first is 1) makes it due."""
        if number % self.period:
            return
        if self.rate == 1.0:
            self.parameters.vector.copy_(source.vector)
            return
        self.parameters.trainable.lerp_(source.trainable, self.rate)
        self.parameters.buffers.copy_(source.buffers)
