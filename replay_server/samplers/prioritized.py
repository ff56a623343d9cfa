"""Prioritised replay: unrolls or steps with a high priority are drawn more often."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from laser.prioritization.config import SamplingConfig
from replay_server.samplers.base import Draw, Sampler, View
from replay_server.samplers.sum_tree import SumTree
from replay_server.samplers.uniform_steps import draw_steps
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import NO_EPISODE, EpisodeIndex


class Prioritized(Sampler):
    """P(i) = (1 - epsilon) p_i^alpha / sum_j p_j^alpha + epsilon / N, with the member's own column "priority".

    The priority of a step is its number in the column, that of an unroll the number of its first row. Until the
    learner has written a priority, an item has the largest weight of all. Drawing and writing an item cost O(log N).
    `alpha` and `epsilon` are `replay.priority-exponent` and `replay.priority-uniform`.

    Source:
        Schaul et al. 2016, section 3.3; Schmitt et al. 2020 (LASER), appendix A.2.
    """

    name: ClassVar[str] = "per"
    views: ClassVar[frozenset[View]] = frozenset({"steps", "unrolls"})
    column: ClassVar[str] = "priority"
    bytes_per_step: ClassVar[int] = 10  # a weight per step (or fewer, per unroll), with sums and maxima above
    reads: ClassVar[tuple[str, ...] | None] = (
        "priority_exponent",
        "priority_uniform",
        "importance_exponent",
        "importance_schedule",
    )

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: SamplingConfig):
        super().__init__(index, view, columns, config)
        self._exponent = config.priority_exponent
        self._uniform = config.priority_uniform
        self._per_page = index.unroll_length if view == "steps" else 1
        self._tree = SumTree(index.pages.num_pages * self._per_page)

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        index, tree = self.index, self._tree
        num_stored = index.num_steps if self.view == "steps" else len(index.live_pages)
        total = tree.total
        share = self._uniform if total > 0 else 1.0
        num_uniform = int(rng.binomial(num_items, share))
        items = np.empty(num_items, np.int64)
        if num_uniform < num_items:
            items[num_uniform:] = tree.draw(num_items - num_uniform, rng)
        if num_uniform:
            if self.view == "steps":
                pages, rows = draw_steps(index, num_uniform, rng)
                items[:num_uniform] = pages.astype(np.int64) * self._per_page + rows
            else:
                items[:num_uniform] = index.live_pages.draw(num_uniform, rng)
        probabilities = np.full(num_items, share / num_stored)
        if total > 0:
            probabilities += (1.0 - share) / total * tree.leaves.take(items)
        pages, rows = np.divmod(items, self._per_page)
        return Draw(pages.astype(np.int32), rows, probabilities, num_stored)

    def inserted(self, pages: np.ndarray) -> None:
        """See `Sampler.inserted`."""
        items = self._items(pages)
        self._tree.write(items, np.where(self._is_stored(pages), self._new_weight(), 0.0).reshape(-1))

    def forgotten(self, pages: np.ndarray) -> None:
        """See `Sampler.forgotten`."""
        items = self._items(pages)
        self._tree.write(items, np.where(self._is_stored(pages).reshape(-1), self._tree.leaves[items], 0.0))

    def written(self, pages: np.ndarray, rows: np.ndarray, width: int) -> None:
        """See `Sampler.written`."""
        column = self.columns.arrays[self.column]
        if self.view == "steps":
            items = ((pages * self._per_page + rows)[:, None] + np.arange(width)).reshape(-1)
            priorities = column.reshape(-1).take(items)
            stored = self.index.episode_of_row.reshape(-1).take(items) != NO_EPISODE
        else:
            items = pages
            priorities = column[pages, 0]
            stored = self._is_stored(pages)[:, 0]
        self._tree.write(items, np.where(stored, self._weights_of(np.abs(priorities.astype(np.float64))), 0.0))

    def _new_weight(self) -> float:
        """Return the weight of items without a written priority."""
        return self._tree.largest or 1.0

    def _weights_of(self, priorities: np.ndarray) -> np.ndarray:
        """Return the weights of items with these non-negative priorities."""
        weights: np.ndarray = priorities**self._exponent
        return weights

    def _items(self, pages: np.ndarray) -> np.ndarray:
        items: np.ndarray = (pages.astype(np.int64)[:, None] * self._per_page + np.arange(self._per_page)).reshape(-1)
        return items

    def _is_stored(self, pages: np.ndarray) -> np.ndarray:
        # bool [N, items per page]: an unroll outlives its episodes in an online queue, a step does not.
        if self.view == "steps":
            stored: np.ndarray = self.index.episode_of_row.take(pages, axis=0) != NO_EPISODE
            return stored
        live: np.ndarray = self.index.num_segments.take(pages)[:, None] > 0
        return live

    @property
    def num_bytes(self) -> int:
        """See `Sampler.num_bytes`."""
        return self._tree.num_bytes

    def check_valid(self) -> None:
        """See `Sampler.check_valid`."""
        self._tree.check_valid()
        stored = self._is_stored(np.arange(self.index.pages.num_pages)).reshape(-1)
        assert (self._tree.leaves[~stored] == 0).all()

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `Sampler.state_dict`."""
        return {"weights": self._tree.leaves.copy()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """See `Sampler.load_state_dict`."""
        self._tree.write(np.arange(self._tree.capacity), state["weights"])
