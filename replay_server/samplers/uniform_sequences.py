"""Uniform sequences: every stored step from which a whole sequence is stored begins one with the same probability."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from replay_server.samplers.base import Draw, Sampler, View
from replay_server.storage.log_parts import Part


class UniformSequences(Sampler):
    """P(start) = 1 / number of starts. O(N), without own state.

    Sequences that begin at stored unrolls' first rows alone would always give the same steps little context. Only the
    T - 1 newest steps of an environment begin none.

    Source:
        Gruslys et al. 2017 (Reactor), section 3.3: sequences drawn uniformly from the memory.
    """

    name: ClassVar[str] = "uniform"
    views: ClassVar[frozenset[View]] = frozenset({"sequences"})
    reads: ClassVar[tuple[str, ...] | None] = ()

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        starts = self.index.starts
        assert starts is not None, "the shard serves sequences only if it counts their starts"
        pages, rows = starts.draw(num_items, rng)
        return Draw(pages, rows, np.full(num_items, 1.0 / starts.total), starts.total)

    def draw_part(self, part: Part, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw_part`."""
        starts = self.index.starts
        assert starts is not None, "the shard serves sequences only if it counts their starts"
        pages, rows = starts.draw(num_items, rng, part)
        return Draw(pages, rows, np.full(num_items, 1.0 / part.num_starts), part.num_starts)
