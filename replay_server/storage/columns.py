"""Mutable columns: numbers per stored row that an algorithm writes back, separate for each member."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from laser.ports import ColumnSpec, ColumnWrites, PortError, WriteReceipt
from replay_server.storage.pages import Pages


class Columns:
    """The columns of one member, float32 [num_pages, T] each. Not thread-safe.

    Args:
        pages: the pages, against whose generations keys are checked.
        unroll_length: T.
        specs: names and initial values.
    """

    def __init__(self, pages: Pages, unroll_length: int, specs: Sequence[ColumnSpec]):
        self._pages = pages
        self._unroll_length = unroll_length
        # Called after a write with pages, first rows and the number of rows written from there on.
        self.on_write: Callable[[np.ndarray, np.ndarray, int], None] | None = None
        self._initial = {spec.name: spec.initial for spec in specs}
        self.arrays = {spec.name: np.full((pages.num_pages, unroll_length), spec.initial, np.float32) for spec in specs}

    def reset(self, pages: np.ndarray) -> None:
        """Set the rows of freshly inserted pages to the initial values."""
        for name, array in self.arrays.items():
            array[pages] = self._initial[name]

    def gather(self, pages: np.ndarray) -> dict[str, np.ndarray]:
        """Return whole pages, float32 [N, T] by name."""
        return {name: array.take(pages, axis=0) for name, array in self.arrays.items()}

    def gather_rows(self, pages: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return single rows, float32 [N, 1] by name."""
        return {name: array[pages, rows][:, None] for name, array in self.arrays.items()}

    def write(self, writes: ColumnWrites) -> WriteReceipt:
        """Write values [N, width] from `keys["row"]` on; keys of reused pages are dropped and counted.

        If two keys name the same row, the later value counts.

        Raises:
            PortError: an unknown column, values of the wrong shape or not finite, rows outside the page. Nothing is
                written in that case.
        """
        keys = writes.keys
        pages, rows = keys["page"].astype(np.int64), keys["row"].astype(np.int64)
        checked = {name: self._checked(name, values, rows) for name, values in writes.values.items()}
        if ((pages < 0) | (pages >= self._pages.num_pages)).any():
            raise PortError(f"column writes name pages outside [0, {self._pages.num_pages})")
        current = self._pages.generation[pages] == keys["generation"]
        num_current = int(current.sum())
        width = 0
        if num_current < len(keys):
            pages, rows = pages[current], rows[current]
        for name, values in checked.items():
            width = max(width, values.shape[1])
            at = (pages * self._unroll_length + rows)[:, None] + np.arange(values.shape[1])
            self.arrays[name].reshape(-1)[at] = values if num_current == len(keys) else values[current]
        if self.on_write is not None and num_current:
            self.on_write(pages, rows, width)
        return WriteReceipt(num_current * width, (len(keys) - num_current) * width)

    def _checked(self, name: str, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if name not in self.arrays:
            raise PortError(f"column {name!r} was not declared; this member has {sorted(self.arrays)}")
        if values.ndim != 2 or len(values) != len(rows):
            raise PortError(f"column {name!r} needs values of shape [{len(rows)}, rows], got {values.shape}")
        if len(rows) and (rows.min() < 0 or rows.max() + values.shape[1] > self._unroll_length):
            raise PortError(f"column {name!r}: rows must stay within [0, {self._unroll_length})")
        if not np.isfinite(values).all():
            raise PortError(f"column {name!r} got values that are not finite")
        return values

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.arrays.values())

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the columns by name."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore a state from `state_dict`."""
        for name, array in self.arrays.items():
            array[...] = state[name]
