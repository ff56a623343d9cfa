"""Column writes: the learner sends column values of the rows it has learned from back to the replay."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laser.algorithms.base import WriteOptions
from laser.gpu import CPU, HostCopy, ToHost
from laser.ports import ColumnWrites, PortClosedError, PortTimeoutError, ReplayPort, wait
from learner.experience.mixing import Mix

DEADLINE_S = 60.0


class ColumnWriter:
    """Sends values to the replay's columns without waiting for the replay. Used from one thread.

    Values on a GPU are copied to the host first. They are sent when the values of the next batch come, by when their
    copy has finished.

    Args:
        replay: receives the writes.
        member: whose columns are written.
        batches_per_write: batches whose values form one write.
        device: of the values.
    """

    def __init__(
        self,
        replay: ReplayPort,
        member: int,
        batches_per_write: int = 1,
        device: torch.device = CPU,
    ):
        self._replay = replay
        self._to_host = ToHost(device)
        self._is_copied_later = device.type != "cpu"
        self._copying: _CopiedBatch | None = None
        self._member = member
        self._batches_per_write = batches_per_write
        self._waiting: list[ColumnWrites] = []
        self._under_way: list[Future[Any]] = []
        self._num_failed = 0
        self._has_warned = False

    def write_batch(
        self, mix: Mix, values: Mapping[str, Tensor], final_values: Mapping[str, Tensor], options: WriteOptions
    ) -> None:
        """Write the column values of a batch's replayed sequences, if it has any.

        Args:
            mix: the samples of the batch.
            values: [T, B] by column.
            final_values: [1, B] by column, for the observation after each row.
            options: bounds and sweep that go with the values.
        """
        if mix.replayed is None or not values:
            return
        replayed = slice(mix.num_online, None)
        copy = self._to_host.start(
            [value[:, replayed].T.contiguous() for value in values.values()]
            + [value[0, replayed].contiguous() for value in final_values.values()]
        )
        self.hand_over()
        self._copying = _CopiedBatch(copy, tuple(values), tuple(final_values), mix.replayed.keys, options)
        if not self._is_copied_later:
            self.hand_over()

    def hand_over(self) -> None:
        """Wait for the copies under way, then send their values or keep them for a joint write."""
        copied, self._copying = self._copying, None
        if copied is None:
            return
        for writes in copied.writes(self._member):
            if self._waiting and not _go_together(self._waiting[-1], writes):
                self._flush()
            self._waiting.append(writes)
            if len(self._waiting) >= self._batches_per_write:
                self._flush()

    def write(self, writes: ColumnWrites) -> None:
        """Send these writes, after the values that wait for a joint write."""
        self.hand_over()
        self._flush()
        self._send(writes)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._send(_joined(waiting))

    def _send(self, writes: ColumnWrites) -> None:
        # Failures are counted only: a lost shard loses column values but does not end the run.
        under_way, self._under_way = self._under_way, []
        failures = []
        for future in under_way:  # `done` is read once per future: it may change at any moment
            if not future.done():
                self._under_way.append(future)
            elif error := future.exception():
                failures.append(error)
        self._num_failed += len(failures)
        refused = [error for error in failures if not isinstance(error, (PortClosedError, PortTimeoutError))]
        if refused and not self._has_warned:  # once: a shard that refuses one write refuses the next ones too
            self._has_warned = True
            warnings.warn(f"the replay refuses the learner's column writes: {refused[0]}", RuntimeWarning, stacklevel=2)
        self._under_way.append(self._replay.write(writes))

    @property
    def num_pending(self) -> int:
        """Writes that have not been confirmed, and batches whose values wait to be sent."""
        unconfirmed = sum(not future.done() for future in self._under_way)
        return unconfirmed + len(self._waiting) + (self._copying is not None)

    def take_failed(self) -> int:
        """Return the number of writes that failed since the last call."""
        failed, self._num_failed = self._num_failed, 0
        return failed

    def settle(self) -> None:
        """Send all waiting values, and wait until everything is written."""
        self.hand_over()
        self._flush()
        for future in self._under_way:
            wait(future, DEADLINE_S, "the replay to take column writes")
        self._under_way = []


@dataclasses.dataclass(frozen=True)
class _CopiedBatch:
    """Values of one batch on their way to the host, with their column names and keys."""

    copy: HostCopy
    names: tuple[str, ...]
    final_names: tuple[str, ...]
    keys: np.ndarray
    options: WriteOptions

    def writes(self, member: int) -> list[ColumnWrites]:
        arrays = self.copy.result()
        values = dict(zip(self.names, arrays, strict=False))
        final = dict(zip(self.final_names, arrays[len(self.names) :], strict=True))
        bounds, sweep = self.options.far_bounds, self.options.sweep
        if self.keys.ndim == 1:
            return [ColumnWrites(member, self.keys, values, final, bounds, sweep)]
        # Rows of streams and sequences lie on several pages: each has a write of its own. A column that has numbers of
        # the first row alone has other rows to write than the rest.
        widths = sorted({value.shape[1] for value in values.values()})
        parts = [
            ColumnWrites(
                member,
                self.keys[:, :width].reshape(-1),
                {name: value.reshape(-1, 1) for name, value in values.items() if value.shape[1] == width},
            )
            for width in widths
        ]
        parts[-1] = dataclasses.replace(parts[-1], final_values=final, far_bounds=bounds, sweep=sweep)
        return parts


def _go_together(one: ColumnWrites, other: ColumnWrites) -> bool:
    names = one.values.keys() == other.values.keys() and one.final_values.keys() == other.final_values.keys()
    return names and one.sweep == other.sweep


def _joined(writes: Sequence[ColumnWrites]) -> ColumnWrites:
    """Return one write with the rows of all, in order; for a row that comes twice the newest value counts."""
    newest = writes[-1]
    if len(writes) == 1:
        return newest
    values = {name: np.concatenate([each.values[name] for each in writes]) for name in newest.values}
    final = {name: np.concatenate([each.final_values[name] for each in writes]) for name in newest.final_values}
    # Not every write has bounds: the newest value of each bound counts.
    bounds = {name: bound for each in writes for name, bound in each.far_bounds.items()}
    keys = np.concatenate([each.keys for each in writes])
    return dataclasses.replace(newest, keys=keys, values=values, final_values=final, far_bounds=bounds)
