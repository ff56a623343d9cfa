"""A set of small integers in a dense array, from which a uniform draw is one array look-up."""

from __future__ import annotations

import numpy as np


class DenseSet:
    """A subset of 0..capacity-1 in arbitrary but reproducible order. Not thread-safe.

    `add` and `remove` cost O(n) for n items, `draw` O(n) for n draws, whatever the size of the set.
    """

    def __init__(self, capacity: int):
        self._items = np.full(capacity, -1, np.int32)
        self._position = np.full(capacity, -1, np.int32)
        self._size = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self._size

    @property
    def items(self) -> np.ndarray:
        """The items, int32 [len(self)]; a view that the next change invalidates."""
        return self._items[: self._size]

    def contains(self, items: np.ndarray) -> np.ndarray:
        """Return whether each of these items is in the set, bool like `items`."""
        found: np.ndarray = self._position[items] >= 0
        return found

    def add(self, items: np.ndarray) -> None:
        """Add distinct items that are not in the set."""
        stop = self._size + len(items)
        self._items[self._size : stop] = items
        self._position[items] = np.arange(self._size, stop, dtype=np.int32)
        self._size = stop

    def remove(self, items: np.ndarray) -> None:
        """Remove distinct items that are in the set; the last items move into the holes."""
        new_size = self._size - len(items)
        holes = self._position[items]
        self._position[items] = -1
        tail = self._items[new_size : self._size]
        movers = tail[self._position[tail] >= 0]
        holes = holes[holes < new_size]
        self._items[holes] = movers
        self._position[movers] = holes
        self._size = new_size

    def draw(self, num: int, rng: np.random.Generator) -> np.ndarray:
        """Return `num` items drawn uniformly with replacement, int32 [num]."""
        drawn: np.ndarray = self._items[rng.integers(self._size, size=num)]
        return drawn

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self._items.nbytes + self._position.nbytes

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the items in order, since draws depend on the order."""
        return {"items": self.items.copy()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Restore a state from `state_dict`."""
        self._position.fill(-1)
        self._size = 0
        self.add(state["items"])
