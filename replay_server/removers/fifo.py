"""The first-in, first-out remover: the episode that ended longest ago is forgotten first."""

from __future__ import annotations

from typing import ClassVar

from replay_server.removers.base import Remover
from replay_server.storage.episode_index import Episode, EpisodeIndex


class Fifo(Remover):
    """Forgets finished episodes in the order in which they ended.

    An open episode loses its oldest page once that page is older than all of the next finished episode, so that an
    episode that never ends cannot crowd out the others. O(pinned + open episodes).
    """

    name: ClassVar[str] = "fifo"

    def choose(self, index: EpisodeIndex) -> Episode | None:
        """See `Remover.choose`."""
        finished = next((episode for episode in index.finished.values() if not episode.num_pins), None)
        oldest_open = min(index.open.values(), key=lambda episode: episode.first_order, default=None)
        if finished is None or oldest_open is None:
            return finished or oldest_open
        return oldest_open if oldest_open.first_order < finished.first_order else finished
