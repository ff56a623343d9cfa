"""Several passes over each batch, as in PPO."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from laser.algorithms.base import Schedule
from laser.algorithms.metrics import StackedMetrics, stack
from laser.batch import Batch, take_columns
from learner.updating.batch_loss import Prepare
from learner.updating.updater import Updated, Updater


class SeveralPasses(Updater):
    """Applies an update per minibatch: each epoch splits all sequences of the batch into random minibatches.

    Args:
        updater: applies the update of a minibatch; its loss takes prepared batches.
        prepare: takes networks and a batch, and returns the batch that is split.
        num_epochs: passes over the whole batch.
        num_minibatches: per epoch.
    """

    def __init__(self, updater: Updater, prepare: Prepare, num_epochs: int, num_minibatches: int):
        super().__init__(updater.state)
        self.is_compiled = updater.is_compiled
        self._updater = updater
        self._prepare = prepare
        self._num_epochs = num_epochs
        self._num_minibatches = num_minibatches

    @property
    def description(self) -> str:
        """See `Updater`."""
        return self._updater.description

    def scalar(self, value: float) -> float | Tensor:
        """See `Updater`."""
        return self._updater.scalar(value)

    def update(self, batch: Batch, learning_rate: float, inputs: Schedule) -> Updated:
        """See `Updater`; metrics are means over the minibatches, the loss's other results come from the last one."""
        batch = self._prepare(self.state.networks, batch)
        sums: dict[tuple[str, ...], Tensor] = {}  # by the names of a minibatch's metrics
        for _ in range(self._num_epochs):
            order = torch.randperm(batch.shape[1], generator=self.state.generator, device=self.state.device)
            for columns in order.tensor_split(self._num_minibatches):
                metrics, output = self._updater.update(take_columns(batch, columns), learning_rate, inputs)
                share, names = stack(metrics).vector / (self._num_epochs * self._num_minibatches), tuple(metrics)
                sums[names] = sums[names] + share if names in sums else share
        return _merged(sums), output

    def next_core_state(self, batch: Batch, inputs: Schedule) -> dict[str, Tensor]:
        """See `Updater`."""
        return self._updater.next_core_state(self._prepare(self.state.networks, batch), inputs)

    def compile(self, batch: Batch, inputs: Schedule) -> None:
        """See `Updater`; compiles for all minibatch sizes that the batch is split into."""
        batch = self._prepare(self.state.networks, batch)
        minibatches = torch.arange(batch.shape[1], device=self.state.device).tensor_split(self._num_minibatches)
        for columns in {len(columns): columns for columns in minibatches}.values():
            self._updater.compile(take_columns(batch, columns), inputs)

    def compile_core_state(self, batch: Batch, inputs: Schedule) -> None:
        """See `Updater`."""
        self._updater.compile_core_state(self._prepare(self.state.networks, batch), inputs)

    def uncompiled(self) -> SeveralPasses:
        """See `Updater`."""
        return SeveralPasses(self._updater.uncompiled(), self._prepare, self._num_epochs, self._num_minibatches)

    def close(self) -> None:
        """See `Updater`."""
        self._updater.close()


def _merged(sums: Mapping[tuple[str, ...], Tensor]) -> Mapping[str, Tensor]:
    """Return the total of each metric; `sums` has a vector of totals per tuple of metric names."""
    if len(sums) == 1:
        ((names, total),) = sums.items()
        return StackedMetrics(names, total)
    merged: dict[str, Tensor] = {}
    for names, total in sums.items():
        for name, value in zip(names, total.unbind(), strict=True):
            merged[name] = merged[name] + value if name in merged else value
    return merged
