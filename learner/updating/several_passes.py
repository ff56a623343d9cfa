"""Several passes over each batch, as PPO makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from laser.algorithms.base import Schedule
from laser.algorithms.metrics import StackedMetrics, stack
from laser.batch import Batch, take_columns
from learner.updating.updater import Updated, Updater


class SeveralPasses(Updater):
    """Goes over each batch in epochs, each over all columns in random parts, with an update for each part.

    Args:
        updater: applies the update of a part.
        prepare: of networks and a batch; returns the batch that is cut.
        num_epochs: passes over the whole batch.
        num_parts: updates in each.
    """

    def __init__(self, updater: Updater, prepare: Callable[[nn.Module, Batch], Batch], num_epochs: int, num_parts: int):
        super().__init__(updater.state)
        self.is_compiled = updater.is_compiled
        self._updater = updater
        self._prepare = prepare
        self._num_epochs = num_epochs
        self._num_parts = num_parts

    @property
    def description(self) -> str:
        """See `Updater`."""
        return self._updater.description

    def scalar(self, value: float) -> float | Tensor:
        """See `Updater`."""
        return self._updater.scalar(value)

    def update(self, batch: Batch, learning_rate: float, inputs: Schedule) -> Updated:
        """See `Updater`; metrics are means over the parts, the loss's other results are those of the last part."""
        state = self.state
        batch = self._prepare(state.networks, batch)
        sums: dict[tuple[str, ...], Tensor] = {}  # by the metrics that a part had
        for _ in range(self._num_epochs):
            order = torch.randperm(batch.shape[1], generator=state.generator, device=state.device)
            for columns in order.tensor_split(self._num_parts):
                metrics, output = self._updater.update(take_columns(batch, columns), learning_rate, inputs)
                share, names = stack(metrics).vector / (self._num_epochs * self._num_parts), tuple(metrics)
                sums[names] = sums[names] + share if names in sums else share
        return _merged(sums), output

    def next_core_state(self, batch: Batch, inputs: Schedule) -> dict[str, Tensor]:
        """See `Updater`."""
        return self._updater.next_core_state(self._prepare(self.state.networks, batch), inputs)

    def compile(self, batch: Batch, inputs: Schedule) -> None:
        """See `Updater`; compiles for parts of all sizes that a batch has."""
        batch = self._prepare(self.state.networks, batch)
        parts = torch.arange(batch.shape[1], device=self.state.device).tensor_split(self._num_parts)
        for part in {len(part): part for part in parts}.values():
            self._updater.compile(take_columns(batch, part), inputs)

    def compile_core_state(self, batch: Batch, inputs: Schedule) -> None:
        """See `Updater`."""
        self._updater.compile_core_state(self._prepare(self.state.networks, batch), inputs)

    def uncompiled(self) -> SeveralPasses:
        """See `Updater`."""
        return SeveralPasses(self._updater.uncompiled(), self._prepare, self._num_epochs, self._num_parts)

    def close(self) -> None:
        """See `Updater`."""
        self._updater.close()


def _merged(sums: Mapping[tuple[str, ...], Tensor]) -> Mapping[str, Tensor]:
    """Return sums by metric, of sums by the names of their metrics."""
    if len(sums) == 1:
        ((names, total),) = sums.items()
        return StackedMetrics(names, total)
    merged: dict[str, Tensor] = {}
    for names, total in sums.items():
        for name, value in zip(names, total.unbind(), strict=True):
            merged[name] = merged[name] + value if name in merged else value
    return merged
