"""Prioritised replay: unrolls, steps or sequences with a high priority are drawn more often."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from laser.prioritization.config import SamplingConfig
from replay_server.samplers.base import Draw, Sampler, View
from replay_server.samplers.sum_tree import SumTree
from replay_server.samplers.uniform_steps import draw_steps
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import NO_EPISODE, EpisodeIndex
from replay_server.storage.sequence_starts import PagesBefore


class Prioritized(Sampler):
    """P(i) = (1 - epsilon) p_i^alpha / sum_j p_j^alpha + epsilon / N, with the member's own column "priority".

    The priority of a step is its number in the column, that of an unroll or a sequence the number of its first row.
    Until the learner has written a priority, an item has the largest weight of all. Drawing and writing an item cost
    O(log N). `alpha` and `epsilon` are `replay.priority-exponent` and `replay.priority-uniform`.

    Source:
        Schaul et al. 2016, section 3.3; Schmitt et al. 2020 (LASER), appendix A.2.
    """

    name: ClassVar[str] = "per"
    views: ClassVar[frozenset[View]] = frozenset({"steps", "unrolls", "sequences"})
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
        self._per_page = 1 if view == "unrolls" else index.unroll_length
        self._tree = SumTree(index.pages.num_pages * self._per_page)
        self._starts = index.starts if view == "sequences" else None
        self._pages_before = PagesBefore(index.previous_page) if view == "sequences" else None

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        tree = self._tree
        total = tree.total
        share = self._uniform if total > 0 else 1.0
        num_uniform = int(rng.binomial(num_items, share))
        items = np.empty(num_items, np.int64)
        if num_uniform < num_items:
            items[num_uniform:] = tree.draw(num_items - num_uniform, rng)
        if num_uniform:
            items[:num_uniform] = self._draw_uniformly(num_uniform, rng)
        probabilities = np.full(num_items, share / self._num_stored)
        if total > 0:
            probabilities += (1.0 - share) / total * tree.leaves.take(items)
        pages, rows = np.divmod(items, self._per_page)
        return Draw(pages.astype(np.int32), rows, probabilities, self._num_stored)

    def inserted(self, pages: np.ndarray) -> None:
        """See `Sampler.inserted`."""
        items = self._new_items(pages)
        self._tree.write(items, np.full(len(items), self._new_weight()))

    def forgotten(self, pages: np.ndarray) -> None:
        """See `Sampler.forgotten`."""
        changed = pages if self._pages_before is None else self._pages_before.reaching(pages)
        items = self._items(changed)
        self._tree.write(items, np.where(self._is_stored(changed).reshape(-1), self._tree.leaves[items], 0.0))

    def written(self, pages: np.ndarray, rows: np.ndarray, width: int) -> None:
        """See `Sampler.written`."""
        items = self._written_items(pages, rows, width)
        if self.view == "steps":
            stored = self.index.episode_of_row.reshape(-1).take(items) != NO_EPISODE
        else:
            stored = self._is_stored(items // self._per_page)[np.arange(len(items)), items % self._per_page]
        self._tree.write(items, np.where(stored, self._weights_of(self._priorities(items)), 0.0))

    def _new_items(self, pages: np.ndarray) -> np.ndarray:
        """Return the items that these pages, inserted just now, have brought."""
        items: np.ndarray = self._items(pages)[self._is_stored(pages).reshape(-1)]
        if self._pages_before is None:
            return items
        # Sequences may begin at the later rows of the pages before them since then; those of row 0 are known already.
        before = np.setdiff1d(self._pages_before.learn(pages), pages)
        begun = self._is_stored(before)
        begun[:, 0] = False
        return np.concatenate([items, self._items(before)[begun.reshape(-1)]])

    def _written_items(self, pages: np.ndarray, rows: np.ndarray, width: int) -> np.ndarray:
        """Return the items whose priorities were written; see `Sampler.written`."""
        if self.view == "unrolls":
            return pages.astype(np.int64)
        items: np.ndarray = ((pages.astype(np.int64) * self._per_page + rows)[:, None] + np.arange(width)).reshape(-1)
        return items

    def _priorities(self, items: np.ndarray) -> np.ndarray:
        """Return the numbers of these items in the column, not negative."""
        column = self.columns.arrays[self.column]
        numbers = column[items, 0] if self.view == "unrolls" else column.reshape(-1).take(items)
        priorities: np.ndarray = np.abs(numbers.astype(np.float64))
        return priorities

    def _draw_uniformly(self, num_items: int, rng: np.random.Generator) -> np.ndarray:
        if self.view == "unrolls":
            return self.index.live_pages.draw(num_items, rng)
        pages, rows = (
            draw_steps(self.index, num_items, rng) if self._starts is None else self._starts.draw(num_items, rng)
        )
        items: np.ndarray = pages.astype(np.int64) * self._per_page + rows
        return items

    @property
    def _num_stored(self) -> int:
        if self.view == "unrolls":
            return len(self.index.live_pages)
        return self.index.num_steps if self._starts is None else self._starts.total

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
        if self.view == "unrolls":
            live: np.ndarray = self.index.num_segments.take(pages)[:, None] > 0
            return live
        if self._starts is not None:
            return self._starts.allowed(pages)
        stored: np.ndarray = self.index.episode_of_row.take(pages, axis=0) != NO_EPISODE
        return stored

    @property
    def num_bytes(self) -> int:
        """See `Sampler.num_bytes`."""
        return self._tree.num_bytes + (0 if self._pages_before is None else self._pages_before.num_bytes)

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
