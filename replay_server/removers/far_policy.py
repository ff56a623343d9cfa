"""The far-policy remover of ReF-ER: the episode furthest from the policy is forgotten first."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from replay_server.removers.base import Remover
from replay_server.removers.fifo import Fifo
from replay_server.storage.episode_index import Episode, EpisodeIndex


class FarPolicy(Remover):
    """Forgets the finished episode with the largest fraction of far-policy steps, the oldest of equals.

    If no episode has far-policy steps, it works like `Fifo`. The same holds for open episodes: an episode that never
    ended would otherwise crowd out the others. The far-policy steps of all members count. O(live episodes), as vector
    operations.

    Source:
        Novati and Koumoutsakos 2019 (ReF-ER), section 3, rule 2.
    """

    name: ClassVar[str] = "far_policy"

    def choose(self, index: EpisodeIndex) -> Episode | None:
        """See `Remover.choose`."""
        oldest = Fifo().choose(index)
        if oldest is not None and not oldest.finished:
            return oldest
        slots = index.live_episodes.items
        fractions = index.far_of_episode[slots] / index.steps_of_episode[slots]
        while len(slots):
            most = fractions.max()
            if most <= 0.0:
                break
            at_most = np.flatnonzero(fractions == most)
            episodes = [index.episodes[slot] for slot in slots[at_most].tolist()]
            removable = [episode for episode in episodes if episode.finished and not episode.num_pins]
            if removable:
                return min(removable, key=lambda episode: episode.first_order)
            fractions[at_most] = -1.0
        return oldest
