"""Rank-based prioritised replay: an item's weight depends on its rank among the priorities, not on their size."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from laser.prioritization.config import SamplingConfig
from replay_server.samplers.base import View
from replay_server.samplers.prioritized import Prioritized
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import EpisodeIndex


class RankPrioritized(Prioritized):
    """Like `Prioritized`, with weights rank^-alpha, rank 1 for the largest priority; no outlier can take all draws.

    Items are sorted again once as many priorities have been written as there are items. Between two sorts, a written
    item gets the rank that its priority would have had at the last sort. Until the learner has written a priority, an
    item has rank 1. Probabilities follow from the weights in use, so corrections are exact. Writing an item costs
    O(log N), its share of the sorts included.

    Source:
        Schaul et al. 2016, section 3.3, the rank-based variant.
    """

    name: ClassVar[str] = "rank"
    bytes_per_step: ClassVar[int] = Prioritized.bytes_per_step + 9

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: SamplingConfig):
        super().__init__(index, view, columns, config)
        self._sorted = np.zeros(0)  # priorities at the last sort, ascending
        self._is_new = np.full(self._tree.capacity, False)
        self._num_written = 0

    def written(self, pages: np.ndarray, rows: np.ndarray, width: int) -> None:
        """See `Sampler.written`."""
        super().written(pages, rows, width)
        items = self._written_items(pages, rows, width)
        self._is_new[items] = False
        self._num_written += len(items)
        if self._num_written >= self._num_stored:
            self.sort()

    def _new_items(self, pages: np.ndarray) -> np.ndarray:
        items = super()._new_items(pages)
        self._is_new[items] = True
        return items

    def _new_weight(self) -> float:
        return 1.0  # the weight of rank 1, even if no item has it

    def sort(self) -> None:
        """Sort all items and recompute their ranks."""
        self._num_written = 0
        items = np.flatnonzero((self._tree.leaves > 0.0) & ~self._is_new)
        priorities = self._priorities(items)
        self._sorted = np.sort(priorities)
        self._tree.write(items, self._weights_of(priorities))

    def _weights_of(self, priorities: np.ndarray) -> np.ndarray:
        ranks = 1.0 + len(self._sorted) - np.searchsorted(self._sorted, priorities, side="right")
        weights: np.ndarray = ranks**-self._exponent
        return weights

    @property
    def num_bytes(self) -> int:
        """See `Sampler.num_bytes`; the sorted priorities count at full capacity."""
        return super().num_bytes + self._is_new.nbytes + 8 * self._tree.capacity

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `Sampler.state_dict`."""
        counts = {"num_written": np.array(self._num_written)}
        return super().state_dict() | {"sorted": self._sorted.copy(), "is_new": self._is_new.copy()} | counts

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """See `Sampler.load_state_dict`."""
        super().load_state_dict(state)
        self._sorted, self._is_new = state["sorted"].copy(), state["is_new"].copy()
        self._num_written = int(state["num_written"])
