"""A sum tree: draws items by weight and changes their weights in O(log capacity)."""

from __future__ import annotations

import numpy as np

# Children of a node. The levels above the leaves are few, and one NumPy call handles all nodes of a level; with the
# top level scanned whole that is faster than a binary tree (`benchmarks/prioritized.py`).
_BRANCHING = 16
# The widest top level.
_TOP = 4096


class SumTree:
    """Non-negative float64 weights of `capacity` items, their sum and their maximum. Not thread-safe.

    `draw` and `write` cost O(n log capacity) for n items, in a few NumPy calls. Each sum is computed from its children,
    never changed by a difference, so sums do not drift however often weights change.

    Args:
        capacity: number of items; their initial weights are 0.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self._sums: list[np.ndarray] = []
        self._maxima: list[np.ndarray] = []
        size = capacity
        while True:
            padded = -(-size // _BRANCHING) * _BRANCHING
            self._sums.append(_touched(padded))
            # Leaves are their own maxima.
            self._maxima.append(self._sums[0] if len(self._sums) == 1 else _touched(padded))
            if padded <= _TOP:
                break
            size = padded // _BRANCHING

    @property
    def leaves(self) -> np.ndarray:
        """The weights, float64 [capacity]; a view."""
        return self._sums[0][: self.capacity]

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._sums[-1].sum())

    @property
    def largest(self) -> float:
        """The largest weight."""
        return float(self._maxima[-1].max())

    def write(self, items: np.ndarray, weights: np.ndarray | float) -> None:
        """Set weights; of an item that occurs twice, the later weight counts.

        Args:
            items: int [n].
            weights: float [n], finite and not negative.
        """
        self._sums[0][items] = weights
        nodes = items
        for level in range(1, len(self._sums)):
            nodes = nodes // _BRANCHING
            if len(nodes) > 4 * len(self._sums[level]):
                nodes = np.unique(nodes)
            # A node that occurs twice is computed twice, with the same result.
            sums = _rows(self._sums[level - 1]).take(nodes, axis=0)
            maxima = sums if level == 1 else _rows(self._maxima[level - 1]).take(nodes, axis=0)
            self._sums[level][nodes] = sums @ _ONES
            width = _BRANCHING
            while width > 1:  # halves against halves, twice as fast as a reduction along so short an axis
                width //= 2
                maxima = np.maximum(maxima[:, :width], maxima[:, width:])
            self._maxima[level][nodes] = maxima[:, 0]

    def draw(self, num: int, rng: np.random.Generator) -> np.ndarray:
        """Return `num` items drawn in proportion to their weights, int64 [num]; some weight must be positive.

        Stratified: one draw from each of `num` equal parts of the sum.
        """
        top = np.cumsum(self._sums[-1])
        return self.find((np.arange(num) + rng.random(num)) * (top[-1] / num), top)

    def find(self, masses: np.ndarray, top: np.ndarray | None = None) -> np.ndarray:
        """Return the items in which these points of the cumulated sum lie, int64 [n], never one of weight 0.

        Args:
            masses: float64 [n], in [0, total).
            top: cumulated sums of the top level, if known.
        """
        top = np.cumsum(self._sums[-1]) if top is None else top
        # Rounding may move a point to the end of its node, beyond the last child with a positive weight.
        masses = np.minimum(masses, np.nextafter(top[-1], 0.0))
        nodes = np.searchsorted(top, masses, side="right")
        masses = masses - np.where(nodes > 0, top[nodes - 1], 0.0)
        rows = np.arange(len(masses))
        for sums in self._sums[-2::-1]:
            weights = _rows(sums).take(nodes, axis=0)
            cumulated = weights @ _BEFORE  # five times as fast as a cumulated sum along so short an axis
            np.minimum(masses, np.nextafter(cumulated[:, -1], 0.0), out=masses)
            child = (cumulated[:, 1:] > masses[:, None]).argmax(axis=1)
            # The product may add in another order, so that a child of weight 0 seems to have a positive one.
            empty = weights[rows, child] <= 0.0
            if empty.any():
                child[empty] = weights[empty].argmax(axis=1)
            masses -= cumulated[rows, child]
            np.maximum(masses, 0.0, out=masses)
            nodes = nodes * _BRANCHING + child
        return nodes

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in [*self._sums, *self._maxima[1:]])

    def check_valid(self) -> None:
        """Assert that every node is the sum and the maximum of its children; for tests."""
        for level in range(1, len(self._sums)):
            size = len(self._sums[level - 1]) // _BRANCHING
            sums, maxima = self._sums[level], self._maxima[level]
            np.testing.assert_allclose(sums[:size], _rows(self._sums[level - 1]).sum(axis=1), rtol=1e-14)
            np.testing.assert_array_equal(maxima[:size], _rows(self._maxima[level - 1]).max(axis=1))
            assert (sums[size:] == 0).all()
            assert (maxima[size:] == 0).all()
        assert (self._sums[0][self.capacity :] == 0).all()


_ONES = np.ones(_BRANCHING)
# Column j sums the children before j; the last column sums all.
_BEFORE = np.triu(np.ones((_BRANCHING, _BRANCHING + 1)), 1)


def _rows(level: np.ndarray) -> np.ndarray:
    """Return the nodes of a level, one row of children per parent; a view."""
    return level.reshape(-1, _BRANCHING)


def _touched(size: int) -> np.ndarray:
    array = np.empty(size)
    array.fill(0.0)
    return array
