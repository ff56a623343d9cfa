"""Uniform unrolls: every stored unroll is equally likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from replay_server.samplers.base import Draw, Sampler, View
from replay_server.storage.dense_set import DenseSet
from replay_server.storage.log_parts import Part


class UniformUnrolls(Sampler):
    """P(unroll) = 1 / number of unrolls of live episodes. O(N)."""

    name: ClassVar[str] = "uniform"
    views: ClassVar[frozenset[View]] = frozenset({"unrolls"})
    reads: ClassVar[tuple[str, ...] | None] = ()

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        return _draw_from(self.index.live_pages, num_items, rng)

    def draw_part(self, part: Part, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw_part`."""
        return _draw_from(part.pages, num_items, rng)


def _draw_from(stored: DenseSet, num_items: int, rng: np.random.Generator) -> Draw:
    num_stored = len(stored)
    pages = stored.draw(num_items, rng)
    return Draw(pages, np.zeros(num_items, np.int64), np.full(num_items, 1.0 / num_stored), num_stored)
