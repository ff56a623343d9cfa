"""Episode samplers: draw an episode first, then one of its steps."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from replay_server.samplers.base import Draw, Sampler, View
from replay_server.samplers.uniform_steps import draw_steps
from replay_server.storage.episode_index import NO_EPISODE, EpisodeIndex


class EpisodeSampler(Sampler):
    """Draws an episode by some weight, then one of its steps uniformly; an unroll is the page of that step.

    P(step) = P(episode) / number of its steps, and P(unroll) is the sum over the unroll's steps.
    """

    views: ClassVar[frozenset[View]] = frozenset({"steps", "unrolls"})
    reads: ClassVar[tuple[str, ...] | None] = ()

    @abstractmethod
    def draw_episodes(self, num_items: int, rng: np.random.Generator) -> np.ndarray:
        """Return slots of episodes, int32 [N], drawn with replacement from the episodes with at least one step."""

    @abstractmethod
    def step_probabilities(self, slots: np.ndarray) -> np.ndarray:
        """Return float64 like `slots`: the probability of one step of each of these episodes."""

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        index = self.index
        slots = self.draw_episodes(num_items, rng)
        pages, rows = _draw_steps_of(index, slots, rng)
        if self.view == "steps":
            return Draw(pages, rows, self.step_probabilities(slots), index.num_steps)
        owners = index.episode_of_row[pages]
        per_row = np.where(owners == NO_EPISODE, 0.0, self.step_probabilities(np.maximum(owners, 0)))
        return Draw(pages, np.zeros(num_items, np.int64), per_row.sum(axis=1), len(index.live_pages))


class UniformEpisodes(EpisodeSampler):
    """Every episode that has a step is equally likely, however long. O(N)."""

    name: ClassVar[str] = "episodes"

    def draw_episodes(self, num_items: int, rng: np.random.Generator) -> np.ndarray:
        """See `EpisodeSampler.draw_episodes`."""
        return self.index.live_episodes.draw(num_items, rng)

    def step_probabilities(self, slots: np.ndarray) -> np.ndarray:
        """See `EpisodeSampler.step_probabilities`."""
        index = self.index
        # A slot without an episode has 0 steps; callers mask it, the maximum only avoids a division by 0.
        probabilities: np.ndarray = 1.0 / (len(index.live_episodes) * np.maximum(index.steps_of_episode[slots], 1))
        return probabilities


class EpisodesByLength(EpisodeSampler):
    """An episode's probability is its share of the stored steps, so that every step is equally likely. O(N)."""

    name: ClassVar[str] = "episodes_by_length"

    def draw_episodes(self, num_items: int, rng: np.random.Generator) -> np.ndarray:
        """See `EpisodeSampler.draw_episodes`."""
        pages, rows = draw_steps(self.index, num_items, rng)
        slots: np.ndarray = self.index.episode_of_row[pages, rows]
        return slots

    def step_probabilities(self, slots: np.ndarray) -> np.ndarray:
        """See `EpisodeSampler.step_probabilities`."""
        return np.full(slots.shape, 1.0 / self.index.num_steps)


def _draw_steps_of(index: EpisodeIndex, slots: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    episodes = [index.episodes[slot] for slot in slots.tolist()]
    unroll_length = index.unroll_length
    starts = np.array([episode.start_row for episode in episodes])
    num_rows = np.array([index.num_rows(episode) for episode in episodes])
    pages, rows = np.zeros(len(slots), np.int32), np.zeros(len(slots), np.int64)
    missing = np.arange(len(slots))
    while len(missing):
        # The rows of an episode are consecutive. Nearly all hold a step; draws of other rows are repeated.
        place, row = np.divmod(starts[missing] + rng.integers(num_rows[missing]), unroll_length)
        page = np.array([episodes[i].pages[k] for i, k in zip(missing.tolist(), place.tolist(), strict=True)], np.int32)
        pages[missing], rows[missing] = page, row
        missing = missing[index.episode_of_row[page, row] != slots[missing]]
    return pages, rows
