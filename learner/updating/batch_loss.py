"""An algorithm's loss of batches as the learner collates them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, nn

from laser.algorithms.base import Algorithm, LossOutput, Schedule, Targets
from laser.batch import Batch
from laser.ops.frame_stacks import stack_frames
from laser.specs import FramesSpec
from laser.unroll import UnrollSpec

Loss = Callable[[nn.Module, Targets, Batch, Schedule, Generator | None], LossOutput]
"""Like `laser.algorithms.base.Algorithm.loss`; without a generator it draws from torch's global one."""
Prepare = Callable[[nn.Module, Batch], Batch]
"""Like `laser.algorithms.base.Algorithm.prepare`."""


class BatchLoss:
    """Stacks a batch's frames, then computes an algorithm's loss with the networks in one precision.

    Args:
        algorithm: defines the loss.
        spec: layout of the unrolls a batch was made of.
        device: of the batches.
        precision: of matrix products and convolutions, "float32" or "bfloat16".
    """

    def __init__(self, algorithm: Algorithm, spec: UnrollSpec, device: torch.device, precision: str):
        self._algorithm = algorithm
        self._spec = spec
        self._device = device
        self._bfloat16 = precision == "bfloat16"

    def of_collated(
        self, networks: nn.Module, targets: Targets, batch: Batch, inputs: Schedule, generator: Generator | None
    ) -> LossOutput:
        """Return the loss of a batch as `learner.experience.collate` made it; see `Loss`."""
        return self.of_prepared(networks, targets, self._stacked(batch), inputs, generator)

    def of_prepared(
        self, networks: nn.Module, targets: Targets, batch: Batch, inputs: Schedule, generator: Generator | None
    ) -> LossOutput:
        """Return the loss of a batch from `prepare`, or of a minibatch of it; see `Loss`."""
        with self._autocast():
            return self._algorithm.loss(networks, targets, batch, inputs, generator)

    def prepare(self, networks: nn.Module, batch: Batch) -> Batch:
        """Return a collated batch prepared for several passes; see `Algorithm.prepare`."""
        with torch.no_grad(), self._autocast():
            return self._algorithm.prepare(networks, self._stacked(batch))

    def _stacked(self, batch: Batch) -> Batch:
        return stacked(batch, self._spec, self._algorithm.config.view)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bfloat16)


def stacked(batch: Batch, spec: UnrollSpec, view: Literal["unrolls", "steps"]) -> Batch:
    """Return a batch whose frames are stacked, as networks need; frames of single steps are stacked already."""
    if view == "steps":
        return batch
    observations = dict(batch.observations)
    for name, item in spec.environment.observations.items():
        if isinstance(item, FramesSpec):
            observations[name] = stack_frames(observations[name], batch.first, item.stack, item.padding)
    return dataclasses.replace(batch, observations=observations)
