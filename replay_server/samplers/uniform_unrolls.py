"""Uniform unrolls: every stored unroll is equally likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from replay_server.samplers.base import Draw, Sampler, View


class UniformUnrolls(Sampler):
    """P(unroll) = 1 / number of unrolls of live episodes. O(N)."""

    name: ClassVar[str] = "uniform"
    views: ClassVar[frozenset[View]] = frozenset({"unrolls"})
    reads: ClassVar[tuple[str, ...] | None] = ()

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        num_stored = len(self.index.live_pages)
        pages = self.index.live_pages.draw(num_items, rng)
        return Draw(pages, np.zeros(num_items, np.int64), np.full(num_items, 1.0 / num_stored), num_stored)
