"""The stored steps at which a sequence of T rows may begin, and their number."""

from __future__ import annotations

import numpy as np

from replay_server.storage.dense_set import DenseSet
from replay_server.storage.log_parts import LogParts, Part

_MOST_AT_ONCE = 1 << 20


class PagesBefore:
    """Knows the page before each page, also once that page is free and the index has forgotten it.

    Args:
        previous_page: int32 [num_pages], of the `EpisodeIndex`.
    """

    def __init__(self, previous_page: np.ndarray):
        self._previous_page = previous_page
        self._known = previous_page.copy()

    def learn(self, pages: np.ndarray) -> np.ndarray:
        """Take note of pages that were inserted just now; return those before them, int32 [M]."""
        before = self._known[pages] = self._previous_page[pages]
        return np.unique(before[before >= 0])

    def reaching(self, pages: np.ndarray) -> np.ndarray:
        """Return these pages and those before them, whose sequences reach into them, int32 [M].

        Args:
            pages: int32 [N], inserted just now, or with rows that were forgotten just now.
        """
        before = np.concatenate([self._known[pages], self.learn(pages)])
        return np.unique(np.concatenate([pages, before[before >= 0]]))

    def look_again(self) -> None:
        """Take the pages before from the index, which was restored."""
        self._known[:] = self._previous_page

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self._known.nbytes


class SequenceStarts:
    """Counts the starts of whole sequences, and draws from them uniformly. Not thread-safe.

    A sequence that begins at row r of a page has the rows r..T-1 of this page and 0..r-1 of the next page of the same
    environment. It may begin at every stored step whose T rows are stored: at row 0 of each page, and at later rows
    where the next page is live, too. Like a stored unroll, a sequence may hold the end of one episode and the
    beginning of the next.

    The arrays are those of the `EpisodeIndex`, which calls `update` after each change; they hold numbers below 0 where
    there is no episode or page.

    Args:
        episode_of_row: int32 [num_pages, T], the live episode of each step.
        next_page: int32 [num_pages].
        previous_page: int32 [num_pages].
        num_segments: int32 [num_pages], live episodes with rows in the page.
        live_pages: pages with segments.
        parts: of the live pages, whose starts are counted, too; None: there are none.
    """

    def __init__(
        self,
        episode_of_row: np.ndarray,
        next_page: np.ndarray,
        previous_page: np.ndarray,
        num_segments: np.ndarray,
        live_pages: DenseSet,
        parts: LogParts | None = None,
    ):
        self.total = 0
        self._episode_of_row = episode_of_row
        self._next_page = next_page
        self._before = PagesBefore(previous_page)
        self._num_segments = num_segments
        self._live_pages = live_pages
        self._parts = parts
        self._num_of_page = np.zeros(len(next_page), np.int32)

    def allowed(self, pages: np.ndarray) -> np.ndarray:
        """Return bool [N, T]: whether a sequence may begin at each row of these pages."""
        starts: np.ndarray = self._episode_of_row[pages] >= 0
        following = self._next_page[pages]
        goes_on = (following >= 0) & (self._num_segments[following] > 0)
        starts[:, 1:] &= goes_on[:, None]
        return starts

    def update(self, pages: np.ndarray) -> None:
        """Count anew after pages were inserted, or some or all of their rows were forgotten.

        The pages before them are counted, too, since their sequences reach into these.
        """
        changed = self._before.reaching(pages)
        counts = self.allowed(changed).sum(1, dtype=np.int32)
        changes = counts - self._num_of_page[changed]
        self.total += int(changes.sum())
        if self._parts is not None:
            self._parts.count_starts(changed, changes)
        self._num_of_page[changed] = counts

    def recount(self) -> None:
        """Count everything, after the index was restored."""
        self._num_of_page[:] = 0
        self.total = 0
        if self._parts is not None:
            self._parts.log.num_starts = self._parts.own.num_starts = 0
        self._before.look_again()
        self.update(self._live_pages.items.copy())

    def draw(self, num_items: int, rng: np.random.Generator, part: Part | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return pages int32 [N] and rows int64 [N] of starts drawn uniformly with replacement; there is at least one.

        Draws rows of live pages and rejects those that are no starts; nearly all rows are.

        Args:
            num_items: N.
            rng: source of randomness.
            part: to draw from; None: everything.
        """
        unroll_length = self._episode_of_row.shape[1]
        live_pages, total = (self._live_pages, self.total) if part is None else (part.pages, part.num_starts)
        num_rows = len(live_pages) * unroll_length
        pages, rows = np.empty(num_items, np.int32), np.empty(num_items, np.int64)
        num_done = 0
        while num_done < num_items:
            num_missing = num_items - num_done
            # A tenth more than expected, so that a second round is rare.
            num_drawn = int(num_missing * num_rows / total * 1.1) + 8
            place, row = np.divmod(rng.integers(num_rows, size=min(num_drawn, _MOST_AT_ONCE)), unroll_length)
            page = live_pages.items.take(place)
            accepted = np.flatnonzero(self.allowed(page)[np.arange(len(page)), row])[:num_missing]
            pages[num_done : num_done + len(accepted)] = page.take(accepted)
            rows[num_done : num_done + len(accepted)] = row.take(accepted)
            num_done += len(accepted)
        return pages, rows

    def check_valid(self) -> None:
        """Assert the counts by recounting; for tests."""
        everything = np.arange(len(self._num_of_page))
        assert (self._num_of_page == self.allowed(everything).sum(1)).all()
        assert self.total == self._num_of_page.sum()
        if self._parts is not None:
            for part in (self._parts.log, self._parts.own):
                assert part.num_starts == self._num_of_page[part.pages.items].sum()

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self._num_of_page.nbytes + self._before.num_bytes
