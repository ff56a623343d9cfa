"""ERO: steps are drawn uniformly from a random subset, in which each step has its own probability to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from laser.config import Bounds
from laser.prioritization.config import LearnedConfig, SamplerSettings, SamplingConfig
from replay_server.samplers.base import Draw, Sampler, View
from replay_server.samplers.uniform_steps import draw_steps
from replay_server.storage.columns import Columns
from replay_server.storage.dense_set import DenseSet
from replay_server.storage.episode_index import NO_EPISODE, EpisodeIndex


@dataclass(frozen=True)
class EroConfig(LearnedConfig):
    """Settings of experience replay optimisation; the rule beside the learner reads them."""

    batch_size: Annotated[int, Bounds(least=1), "steps per update, drawn uniformly from the whole replay"] = 64
    num_updates: Annotated[int, Bounds(least=1), "updates each time it learns"] = 1


class Ero(Sampler):
    """P(i) = I_i / sum_j I_j, where I_i was drawn as 1 with the probability in the column "ero_keep".

    The subset is drawn for all stored steps at once when the rule beside the learner requests it (`redraw`), at a cost
    proportional to their number. Steps that came later are in the subset. The column "ero_kept" holds I. While the
    subset is empty, every stored step is equally likely. Each of several shards gets draws in proportion to its stored
    steps, so a step's probability depends on the subset of its own shard.

    Source:
        Zha et al. 2019 (ERO), eqs. 4 and 5.
    """

    name: ClassVar[str] = "ero"
    views: ClassVar[frozenset[View]] = frozenset({"steps"})
    column: ClassVar[str] = "ero_keep"
    writes: ClassVar[tuple[str, ...]] = ("ero_kept",)
    bytes_per_step: ClassVar[int] = 8
    settings_class: ClassVar[type[SamplerSettings]] = EroConfig
    reads: ClassVar[tuple[str, ...] | None] = ()

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: SamplingConfig):
        super().__init__(index, view, columns, config)
        self._kept = DenseSet(index.episode_of_row.size)

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        num_stored = self.index.num_steps
        if not len(self._kept):
            pages, rows = draw_steps(self.index, num_items, rng)
            return Draw(pages, rows, np.full(num_items, 1.0 / num_stored), num_stored)
        pages, rows = np.divmod(self._kept.draw(num_items, rng), self.index.unroll_length)
        return Draw(pages, rows.astype(np.int64), np.full(num_items, 1.0 / len(self._kept)), num_stored)

    def redraw(self, rng: np.random.Generator) -> None:
        """See `Sampler.redraw`. O(stored steps)."""
        stored = self._stored(np.sort(self.index.live_pages.items))
        keep = self.columns.arrays[self.column].reshape(-1).take(stored)
        kept = rng.random(len(stored)) < keep
        self._kept.remove(self._kept.items.copy())
        self._kept.add(stored[kept])
        self.columns.arrays["ero_kept"].reshape(-1)[stored] = kept

    def inserted(self, pages: np.ndarray) -> None:
        """See `Sampler.inserted`."""
        self._kept.add(self._stored(pages))

    def forgotten(self, pages: np.ndarray) -> None:
        """See `Sampler.forgotten`."""
        items = self._rows(pages)
        gone = self.index.episode_of_row.reshape(-1).take(items) == NO_EPISODE
        self._kept.remove(items[gone & self._kept.contains(items)])

    def _rows(self, pages: np.ndarray) -> np.ndarray:
        length = self.index.unroll_length
        rows: np.ndarray = (pages.astype(np.int64)[:, None] * length + np.arange(length)).reshape(-1)
        return rows

    def _stored(self, pages: np.ndarray) -> np.ndarray:
        rows = self._rows(pages)
        stored: np.ndarray = rows[self.index.episode_of_row.reshape(-1).take(rows) != NO_EPISODE]
        return stored

    @property
    def num_bytes(self) -> int:
        """See `Sampler.num_bytes`."""
        return self._kept.num_bytes

    def check_valid(self) -> None:
        """See `Sampler.check_valid`."""
        stored = self._stored(self.index.live_pages.items)
        kept = stored[self.columns.arrays["ero_kept"].reshape(-1).take(stored) > 0]
        assert sorted(self._kept.items) == sorted(kept)

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `Sampler.state_dict`."""
        return self._kept.state_dict()

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """See `Sampler.load_state_dict`."""
        self._kept.load_state_dict(state)
