"""The stored unrolls in two parts: those of a log, with which a replay began, and those that actors made since."""

from __future__ import annotations

from typing import Any

import numpy as np

from replay_server.storage.dense_set import DenseSet


class Part:
    """The live pages of one part, with the numbers of live steps and, where they are counted, starts of sequences.

    Args:
        num_pages: of the whole replay.
    """

    def __init__(self, num_pages: int):
        self.pages = DenseSet(num_pages)
        self.num_steps = self.num_starts = 0


class LogParts:
    """Splits the live pages by the actor in their headers, whose number is below 0 for a log. Not thread-safe.

    An episode is of one actor, so all its pages are in the same part. Adding and removing n pages costs O(n).

    Args:
        headers: HEADER_DTYPE [num_pages], of the pages; always the same array.
    """

    def __init__(self, headers: np.ndarray):
        self._actors = headers["actor"]
        self.log, self.own = Part(len(headers)), Part(len(headers))

    def part_of(self, page: int) -> Part:
        """Return the part that a page is in."""
        return self.log if self._actors[page] < 0 else self.own

    def add(self, pages: np.ndarray) -> None:
        """Add distinct pages that became live."""
        is_log = self._actors[pages] < 0
        self.log.pages.add(pages[is_log])
        self.own.pages.add(pages[~is_log])

    def remove(self, pages: np.ndarray) -> None:
        """Remove distinct live pages."""
        is_log = self._actors[pages] < 0
        self.log.pages.remove(pages[is_log])
        self.own.pages.remove(pages[~is_log])

    def count_starts(self, pages: np.ndarray, changes: np.ndarray) -> None:
        """Add changes of the numbers of starts in these pages, int [N] each."""
        of_log = int(changes[self._actors[pages] < 0].sum())
        self.log.num_starts += of_log
        self.own.num_starts += int(changes.sum()) - of_log

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self.log.pages.num_bytes + self.own.pages.num_bytes

    def check_valid(self, live_pages: np.ndarray, episode_of_row: np.ndarray) -> None:
        """Assert both parts by recounting; for tests."""
        for part, is_in in ((self.log, self._actors < 0), (self.own, self._actors >= 0)):
            pages = live_pages[is_in[live_pages]]
            assert sorted(part.pages.items) == sorted(pages)
            assert part.num_steps == (episode_of_row[pages] >= 0).sum()

    def state_dict(self) -> dict[str, Any]:
        """Return the pages of both parts in order, since draws depend on the order."""
        return {"log": self.log.pages.state_dict(), "own": self.own.pages.state_dict()}

    def load_state_dict(self, state: dict[str, Any] | None, live_pages: np.ndarray, episode_of_row: np.ndarray) -> None:
        """Restore a state; the headers must be restored before.

        Args:
            state: from `state_dict`; None, of a replay that kept no parts: they are made anew.
            live_pages: int32 [N], all of them.
            episode_of_row: int32 [num_pages, T], below 0 for rows without a live step.
        """
        if state is None:
            self.log, self.own = Part(len(self._actors)), Part(len(self._actors))
            self.add(live_pages)
        else:
            self.log.pages.load_state_dict(state["log"])
            self.own.pages.load_state_dict(state["own"])
        for part in (self.log, self.own):
            part.num_steps = int((episode_of_row[part.pages.items] >= 0).sum())
