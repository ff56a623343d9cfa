"""The interface of all updaters, with their shared methods."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from laser.algorithms.base import LossOutput, Schedule
from laser.batch import Batch
from laser.compiled_program import CompilationError
from laser.gpu import RunAhead, finish
from learner.updating.train_state import TrainState

Updated = tuple[Mapping[str, Tensor], LossOutput]
"""Metrics of an update (scalar tensors, on the device), and the other results of the loss."""


class Updater(ABC):
    """Updates networks from batches. Used from one thread; on a GPU it uses that thread's CUDA stream.

    Update inputs are the numbers that change over training, e.g. {"progress": 0.3}: the `schedule` of a loss.

    Args:
        state: the training state that updates change.
    """

    is_compiled = False

    def __init__(self, state: TrainState):
        self.state = state
        self.to_device = state.to_device
        self._run_ahead = RunAhead(state.device)

    @property
    @abstractmethod
    def description(self) -> str:
        """Device, precision and kind of code, for the log."""

    @abstractmethod
    def update(self, batch: Batch, learning_rate: float, inputs: Schedule) -> Updated:
        """Apply one update; `in_turn` calls it for each batch, and `SeveralPasses` for each minibatch."""

    @abstractmethod
    def next_core_state(self, batch: Batch, inputs: Schedule) -> dict[str, Tensor]:
        """Return `LossOutput.core_state` recomputed with the current parameters; costs one more forward pass."""

    @abstractmethod
    def uncompiled(self) -> Updater:
        """Return the eager updater of the same state and loss."""

    def warm_up(self, batch: Batch, inputs: Schedule, *, core_state: bool = False) -> Updater:
        """Compile for batches of this shape; the training state stays unchanged.

        Args:
            batch: an example.
            inputs: example update inputs.
            core_state: whether to compile `next_core_state` too.

        Returns:
            the updater to use: this one, or after a warning an eager one if the loss cannot be compiled.
        """
        try:
            self.compile(self.to_device(batch), inputs)
            if core_state:
                self.compile_core_state(self.to_device(batch), inputs)
        except CompilationError as error:
            warnings.warn(f"the loss cannot be compiled and runs uncompiled: {error}", RuntimeWarning, stacklevel=2)
            return self.uncompiled()
        return self

    def compile(self, batch: Batch, inputs: Schedule) -> None:  # noqa: B027 - eager updaters compile nothing
        """Compile updates for batches like `batch`, which is on the device.

        Raises:
            CompilationError: the loss cannot be compiled.
        """

    def compile_core_state(self, batch: Batch, inputs: Schedule) -> None:  # noqa: B027
        """Compile `next_core_state`, like `compile`."""

    def __call__(self, batch: Batch, learning_rate: float, inputs: Schedule) -> Updated:
        """Apply one update.

        Args:
            batch: on this device, as `learner.experience.collate` made it.
            learning_rate: step size of this update.
            inputs: of this update.
        """
        return next(self.in_turn([batch], [learning_rate], inputs))

    def in_turn(self, batches: Sequence[Batch], learning_rates: Sequence[float], inputs: Schedule) -> Iterator[Updated]:
        """Apply an update for each batch, and yield its metrics and results.

        Each update is applied when its item is requested, unless a subclass documents otherwise.
        """
        for batch, learning_rate in zip(batches, learning_rates, strict=True):
            updated = self.update(batch, learning_rate, inputs)
            self._run_ahead.handed_over()
            yield updated

    def scalar(self, value: float) -> float | Tensor:
        """Return a number as an update input; other values of it do not recompile the loss."""
        return value

    def close(self) -> None:
        """Wait for the GPU's pending updates, and free compiled code before the process ends."""
        finish(self.state.device)


def write_state(tensors: Mapping[str, Tensor], output: LossOutput) -> None:
    """Write a loss's `state_updates` to tensors by name if the loss is finite. Call under `torch.no_grad`."""
    if output.state_updates:
        is_finite = torch.isfinite(output.loss.detach())
        for name, value in output.state_updates.items():
            tensors[name].copy_(torch.where(is_finite, value.detach(), tensors[name]))
