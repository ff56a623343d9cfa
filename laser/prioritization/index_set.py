"""A bounded, uniform subset of the keys of drawn steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from laser.ports import KEY_DTYPE


class IndexSet:
    """A uniform subset without replacement of all added keys; a key added twice counts twice.

    Every key gets a random tag, and the keys with the smallest tags are kept: O(capacity) memory for any number added.
    Not thread-safe.

    Args:
        capacity: greatest number of keys to keep.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.clear()

    def __len__(self) -> int:
        """Return the number of keys in the subset."""
        return len(self._tags)

    def clear(self) -> None:
        """Remove all keys."""
        self.keys = np.zeros(0, KEY_DTYPE)
        """The subset, KEY_DTYPE [n]."""
        self._tags = np.zeros(0)

    def add(self, keys: np.ndarray, rng: np.random.Generator) -> None:
        """Add keys, KEY_DTYPE [N]."""
        self._add(keys, rng.random(len(keys)))

    def take_over(self, other: IndexSet) -> None:
        """Add all keys that were added to another set, and clear that set."""
        self._add(other.keys, other._tags)
        other.clear()

    def _add(self, keys: np.ndarray, tags: np.ndarray) -> None:
        if len(self) == self.capacity:
            chosen = np.flatnonzero(tags < self._tags.max())
            if not len(chosen):
                return
            keys, tags = keys[chosen], tags[chosen]
        keys, tags = np.concatenate([self.keys, keys]), np.concatenate([self._tags, tags])
        if len(tags) > self.capacity:
            kept = np.argpartition(tags, self.capacity - 1)[: self.capacity]
            keys, tags = keys[kept], tags[kept]
        self.keys, self._tags = keys, tags

    def state_dict(self) -> dict[str, Any]:
        """Return the state for `load_state_dict`."""
        words = {name: self.keys[name].astype(np.int64) for name in KEY_DTYPE.names or ()}
        return {"tags": self._tags.copy()} | words

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self._tags = np.array(state["tags"], np.float64)
        self.keys = np.zeros(len(self._tags), KEY_DTYPE)
        for name in KEY_DTYPE.names or ():
            self.keys[name] = state[name]
