"""Uniform steps: every stored valid step is equally likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from laser.ports import SampleRequest
from replay_server.samplers.base import Draw, Sampler, View
from replay_server.storage.episode_index import NO_EPISODE, EpisodeIndex
from replay_server.storage.log_parts import Part


class UniformSteps(Sampler):
    """P(step) = 1 / number of stored steps. O(N), without own state.

    Draws rows of live pages and rejects those that hold no live step; nearly all rows hold one.
    """

    name: ClassVar[str] = "uniform"
    views: ClassVar[frozenset[View]] = frozenset({"steps"})
    reads: ClassVar[tuple[str, ...] | None] = ()

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        pages, rows = draw_steps(self.index, num_items, rng)
        return Draw(pages, rows, np.full(num_items, 1.0 / self.index.num_steps), self.index.num_steps)

    def draw_part(self, part: Part, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw_part`."""
        pages, rows = draw_steps(self.index, num_items, rng, part)
        return Draw(pages, rows, np.full(num_items, 1.0 / part.num_steps), part.num_steps)


def draw_beside(index: EpisodeIndex, request: SampleRequest, rng: np.random.Generator) -> Draw:
    """Return the stored steps with the request's keys, or without keys steps drawn uniformly."""
    probability = 1.0 / max(1, index.num_steps)
    if request.keys is None:
        pages, rows = draw_steps(index, request.num_items, rng)
    else:
        pages, rows = request.keys["page"].astype(np.int32), request.keys["row"].astype(np.int64)
        inside = (pages >= 0) & (pages < index.pages.num_pages) & (rows >= 0) & (rows < index.unroll_length)
        pages, rows = pages[inside], rows[inside]
        current = index.pages.generation.take(pages) == request.keys["generation"][inside]
        stored = current & (index.episode_of_row[pages, rows] != NO_EPISODE)
        pages, rows = pages[stored], rows[stored]
    return Draw(pages, rows, np.full(len(pages), probability), index.num_steps)


def draw_steps(
    index: EpisodeIndex, num_items: int, rng: np.random.Generator, part: Part | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return pages int32 [N] and rows int64 [N] of steps drawn uniformly with replacement, from a part if given one."""
    live_pages, num_steps = (index.live_pages, index.num_steps) if part is None else (part.pages, part.num_steps)
    num_rows = len(live_pages) * index.unroll_length
    owners = index.episode_of_row.reshape(-1)
    pages, rows = np.empty(num_items, np.int32), np.empty(num_items, np.int64)
    num_done = 0
    while num_done < num_items:
        num_missing = num_items - num_done
        # A tenth more than expected, so that a second round is rare.
        num_drawn = int(num_missing * num_rows / num_steps * 1.1) + 8
        place, row = np.divmod(rng.integers(num_rows, size=min(num_drawn, 1 << 20)), index.unroll_length)
        page = live_pages.items.take(place)
        is_live = owners.take(page * np.int64(index.unroll_length) + row) != NO_EPISODE
        accepted = np.flatnonzero(is_live)[:num_missing]
        pages[num_done : num_done + len(accepted)] = page.take(accepted)
        rows[num_done : num_done + len(accepted)] = row.take(accepted)
        num_done += len(accepted)
    return pages, rows
