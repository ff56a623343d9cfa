"""Far-policy steps: counts of stored steps whose importance ratio is outside the bounds, by episode and in total."""

from __future__ import annotations

from typing import Any

import numpy as np

from replay_server.storage.episode_index import NO_EPISODE, EpisodeIndex


class FarSteps:
    """Counts the live steps whose ratio, in one column, is not strictly between 1 / bound and bound.

    Counts are incremental: a write costs O(rows written), forgetting an episode O(its rows); moving the bound recounts.
    `index.far_of_episode` sums the counts of all columns, for removers. Not thread-safe.

    Args:
        index: the live rows and their episodes.
        ratios: the column, float32 [num_pages, T].
        bound: above 1.
    """

    def __init__(self, index: EpisodeIndex, ratios: np.ndarray, bound: float):
        self.bound = bound
        self.num_far = 0
        self._index = index
        self._ratios = ratios.reshape(-1)
        self._is_far = np.full(self._ratios.shape, False)

    def update(self, rows: np.ndarray) -> None:
        """Recount these rows (flat indices, distinct), whose ratios have been written."""
        slots = self._index.episode_of_row.reshape(-1)[rows]
        is_far = self._outside(self._ratios[rows]) & (slots != NO_EPISODE)
        changes = is_far.astype(np.int32) - self._is_far[rows]
        moved = np.flatnonzero(changes)
        if len(moved):
            self._is_far[rows[moved]] = is_far[moved]
            np.add.at(self._index.far_of_episode, slots[moved], changes[moved])
            self.num_far += int(changes.sum())

    def forget(self, slot: int, rows: np.ndarray) -> None:
        """Leave out rows (flat indices, distinct) of an episode that are about to be forgotten."""
        num_far = int(np.count_nonzero(self._is_far[rows]))
        if num_far:
            self._is_far[rows] = False
            self._index.far_of_episode[slot] -= num_far
            self.num_far -= num_far

    def move_bound(self, bound: float) -> None:
        """Change the bound; O(all rows) if it differs."""
        if bound != self.bound:
            self.bound = bound
            self.recount()

    def recount(self) -> None:
        """Recompute all counts."""
        slots = self._index.episode_of_row.reshape(-1)
        is_far = self._outside(self._ratios) & (slots != NO_EPISODE)
        changed = np.flatnonzero(is_far != self._is_far)
        changes = is_far[changed].astype(np.int32) - self._is_far[changed]
        np.add.at(self._index.far_of_episode, slots[changed], changes)
        self._is_far = is_far
        self.num_far = int(np.count_nonzero(is_far))

    def _outside(self, ratios: np.ndarray) -> np.ndarray:
        outside: np.ndarray = ~((ratios > 1.0 / self.bound) & (ratios < self.bound))
        return outside

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self._is_far.nbytes

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the column."""
        return {"bound": self.bound}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`. Index and column must be restored before, and far counts be 0."""
        self.bound = float(state["bound"])
        self._is_far[:] = False
        self.recount()

    def check_valid(self) -> None:
        """Assert that the counts equal a recount; for tests."""
        slots = self._index.episode_of_row.reshape(-1)
        is_far = self._outside(self._ratios) & (slots != NO_EPISODE)
        assert (self._is_far == is_far).all()
        assert self.num_far == is_far.sum()
