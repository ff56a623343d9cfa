"""The training state that updates change: networks, optimiser, target networks and random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from laser.algorithms.base import Algorithm, Schedule
from laser.flat_parameters import FlatParameters
from laser.gpu import ToDevice, set_up_cudnn, to_device
from learner.updating.optimizer import FlatOptimizer
from learner.updating.target_network import TargetNetwork


class TrainState:
    """Networks with their optimiser, target networks and random numbers, on one device. Used from one thread.

    Args:
        algorithm: defines the optimiser, the target networks and the parameter groups.
        networks: trained in place; moved to `device`.
        device: of networks and updates; a GPU is used on the calling thread's CUDA stream.
        seed: of the loss's random numbers.
    """

    def __init__(self, algorithm: Algorithm, networks: nn.Module, device: torch.device, seed: int):
        set_up_cudnn(device)
        self.device = device
        self.networks = networks.to(device).train()
        self.parameters = FlatParameters(self.networks, algorithm.acts_with)
        self.tensors = self.networks.state_dict()  # views of the same memory
        settings, groups = algorithm.config, algorithm.parameter_groups
        self.optimizer = FlatOptimizer(
            self.parameters, settings.optimizer, settings.optimizer_epsilon, settings.max_gradient_norm, groups
        )
        self.targets = {name: TargetNetwork(self.networks, target) for name, target in algorithm.targets.items()}
        self.target_modules = {name: target.networks for name, target in self.targets.items()}
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.num_updates = 0
        self.to_device = ToDevice(device, torch.cuda.current_stream(device) if device.type == "cuda" else None)
        self._algorithm = algorithm
        self._periods = {group.prefix: group.period for group in groups if group.period > 1}

    @torch.no_grad()
    def observe(self, statistics: Mapping[str, Any], num_updates: int) -> None:
        """Set the algorithm's buffers from sums over the replay; see `Algorithm.observe`."""
        values = self._algorithm.observe(self.networks, statistics, num_updates)
        for name, value in values.items():
            self.tensors[name].copy_(to_device(value, self.device))
        if values:
            for target in self.targets.values():
                target.parameters.buffers.copy_(self.parameters.buffers)

    def inputs_of(self, number: int, inputs: Schedule) -> Schedule:
        """Return the inputs of update `number`, with the due parameter groups for `laser.algorithms.base.is_due`."""
        if not self._periods:
            return inputs
        return {**inputs, "due": {prefix: number % period == 0 for prefix, period in self._periods.items()}}

    @property
    def cycle(self) -> int:
        """Number of updates after which the same parameter groups and averaged target networks are due again."""
        return math.lcm(*self._periods.values(), *(each.period for each in self.targets.values() if each.is_averaged))
