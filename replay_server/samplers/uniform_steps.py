"""Uniform steps: every stored valid step is equally likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from replay_server.episodes import NO_EPISODE, EpisodeIndex
from replay_server.samplers.base import Draw, Sampler, View


class UniformSteps(Sampler):
    """P(step) = 1 / number of stored steps. O(N), no memory of its own.

    Draws rows of live pages and throws away those that hold no live step; nearly all do.
    """

    name: ClassVar[str] = "uniform"
    views: ClassVar[frozenset[View]] = frozenset({"steps"})

    def draw(self, index: EpisodeIndex, view: View, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        pages, rows = draw_steps(index, num_items, rng)
        return Draw(pages, rows, np.full(num_items, 1.0 / index.num_steps), index.num_steps)


def draw_steps(index: EpisodeIndex, num_items: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return pages int32 [N] and rows int64 [N] of steps drawn uniformly with replacement."""
    num_rows = len(index.live_pages) * index.unroll_length
    accepted: list[np.ndarray] = []
    num_missing = num_items
    while num_missing > 0:
        # A tenth more than expected, so that a second round is rare.
        num_drawn = int(num_missing * num_rows / index.num_steps * 1.1) + 8
        drawn = rng.integers(num_rows, size=min(num_drawn, 1 << 20))
        place, rows = np.divmod(drawn, index.unroll_length)
        at = index.live_pages.items[place].astype(np.int64) * index.unroll_length + rows
        accepted.append(at[index.episode_of_row.reshape(-1)[at] != NO_EPISODE])
        num_missing -= len(accepted[-1])
    pages, rows = np.divmod(np.concatenate(accepted)[:num_items], index.unroll_length)
    return pages.astype(np.int32), rows
