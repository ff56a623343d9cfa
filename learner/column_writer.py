"""What the learner writes back to the replay: column values of the rows it has learned from."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from torch import Tensor

from laser.algorithms.base import WriteOptions
from laser.ports import ColumnWrites, ReplayPort, wait
from learner.mixing import Mix

DEADLINE_S = 60.0


class ColumnWriter:
    """Sends values to the replay's columns without waiting for them. Used from one thread.

    Args:
        replay: where they go.
        member: whose columns they are.
    """

    def __init__(self, replay: ReplayPort, member: int):
        self._replay = replay
        self._member = member
        self._under_way: list[Future[Any]] = []
        self._num_failed = 0

    def write_batch(
        self, mix: Mix, values: Mapping[str, Tensor], final_values: Mapping[str, Tensor], options: WriteOptions
    ) -> None:
        """Write what a batch's loss and sampler made of its replayed columns; nothing where there are none.

        Args:
            mix: where the batch came from.
            values: [T, B] by column.
            final_values: [1, B] by column, of the observations after each row.
            options: what else the replay is to do.
        """
        if mix.replayed is None or not values:
            return
        replayed = slice(mix.num_online, None)
        arrays = {name: value[:, replayed].T.contiguous().cpu().numpy() for name, value in values.items()}
        final = {name: value[0, replayed].contiguous().cpu().numpy() for name, value in final_values.items()}
        keys = mix.replayed.keys
        if keys.ndim == 2:  # the rows of a stream's piece lie here and there
            num_rows = next(iter(arrays.values())).shape[1]
            keys = keys[:, :num_rows].reshape(-1)
            arrays = {name: value.reshape(-1, 1) for name, value in arrays.items()}
        self.write(ColumnWrites(self._member, keys, arrays, final, options.far_bounds, options.sweep))

    def write(self, writes: ColumnWrites) -> None:
        """Write; what fails is counted: a shard that is gone costs numbers, not the run."""
        self._num_failed += sum(future.done() and future.exception() is not None for future in self._under_way)
        self._under_way = [future for future in self._under_way if not future.done()]
        self._under_way.append(self._replay.write(writes))

    def take_failed(self) -> int:
        """Return how many writes failed since the last call."""
        failed, self._num_failed = self._num_failed, 0
        return failed

    def settle(self) -> None:
        """Wait until everything is written."""
        for future in self._under_way:
            wait(future, DEADLINE_S, "the replay to take column writes")
        self._under_way = []
