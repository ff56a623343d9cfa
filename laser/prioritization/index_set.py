"""Which stored steps were drawn in some time: a bounded, uniform subset of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from laser.ports import KEY_DTYPE


class IndexSet:
    """A uniform subset without replacement of all keys that were added, those added twice counting twice.

    Every key gets a random tag, and those with the smallest tags are kept: O(capacity) memory however much is added.
    Not thread-safe.

    Args:
        capacity: how many are kept.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.clear()

    def __len__(self) -> int:
        """Return how many keys are kept."""
        return len(self._tags)

    def clear(self) -> None:
        """Begin anew."""
        self.keys = np.zeros(0, KEY_DTYPE)
        """The subset, KEY_DTYPE [n]."""
        self._tags = np.zeros(0)

    def add(self, keys: np.ndarray, rng: np.random.Generator) -> None:
        """Take in keys, KEY_DTYPE [N]."""
        self._add(keys, rng.random(len(keys)))

    def take_over(self, other: IndexSet) -> None:
        """Take in all that was added to another set, which begins anew."""
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
        """Return what `load_state_dict` needs."""
        words = {name: self.keys[name].astype(np.int64) for name in KEY_DTYPE.names or ()}
        return {"tags": self._tags.copy()} | words

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._tags = np.array(state["tags"], np.float64)
        self.keys = np.zeros(len(self._tags), KEY_DTYPE)
        for name in KEY_DTYPE.names or ():
            self.keys[name] = state[name]
