"""The interface of removers, which choose the episode to forget when the replay is full."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from replay_server.storage.episode_index import Episode, EpisodeIndex


class Remover(ABC):
    """Chooses an episode; used under the shard's lock.

    A chosen finished episode is forgotten whole; a chosen open one loses its oldest page. A subclass sets `name`, as
    users write it. One file per strategy in this folder; `find_removers` finds it.
    """

    name: ClassVar[str] = ""

    @abstractmethod
    def choose(self, index: EpisodeIndex) -> Episode | None:
        """Return an episode that is not pinned, or None if there is none. Called until there is room."""
