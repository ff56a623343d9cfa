"""A stack of free indices: the unused pages, blocks or slots of a preallocated array."""

from __future__ import annotations

import numpy as np


class FreeList:
    """The unused indices among 0..capacity-1; indices given back last are taken first. Not thread-safe.

    Taking and giving n indices costs O(n) in one NumPy copy.
    """

    def __init__(self, capacity: int):
        self._stack = np.arange(capacity - 1, -1, -1, dtype=np.int32)
        self._num_free = capacity

    def __len__(self) -> int:
        """Return the number of free indices."""
        return self._num_free

    def take(self, num: int) -> np.ndarray:
        """Return `num` indices, int32 [num]; the caller has checked that this many are free."""
        assert num <= self._num_free
        self._num_free -= num
        return self._stack[self._num_free : self._num_free + num][::-1].copy()

    def give(self, indices: np.ndarray) -> None:
        """Take back indices that were taken."""
        stop = self._num_free + len(indices)
        self._stack[self._num_free : stop] = indices[::-1]
        self._num_free = stop

    def is_free(self) -> np.ndarray:
        """Return whether each index is free, bool [capacity]."""
        free = np.zeros(len(self._stack), bool)
        free[self._stack[: self._num_free]] = True
        return free

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self._stack.nbytes

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the free indices in order, since the order decides which index is taken next."""
        return {"stack": self._stack[: self._num_free].copy()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Restore a state from `state_dict`."""
        self._num_free = len(state["stack"])
        self._stack[: self._num_free] = state["stack"]
