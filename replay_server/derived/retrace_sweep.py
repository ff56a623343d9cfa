"""The derived column of Q-retrace: swept backwards through stored episodes, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from laser.ports import RetraceSpec
from replay_server.storage.episode_index import NO_PAGE, EpisodeIndex

Reach = Literal["none", "episodes", "changed", "all"]


class RetraceColumn:
    """Keeps a column equal to Q-retrace.

        Q^ret[t] = r[t] + disc[t] * (V[t+1] + lambda * min(1, rho[t+1]) * (Q^ret[t+1] - A[t+1] - V[t+1]))

    V, A and rho are other columns. V of an episode's final observation is in the row without a transition that ends the
    episode. A step whose successor is not stored yet has V + A.

    A sweep takes a set of pages. Each page is an affine map of the number that follows the page. The maps are composed
    along the episodes by doubling, and then the rows are filled in. A sweep costs T vector operations over the pages
    and log2(pages of the longest episode) more. Not thread-safe.

    Args:
        index: the pages and their order.
        columns: float32 [num_pages, T] by name; changed in place.
        name: of the derived column.
        spec: names of the other columns, initial discount, and lambda.

    Source:
        Novati and Koumoutsakos 2019 (RACER), equation 2 and algorithm 3.
    """

    def __init__(self, index: EpisodeIndex, columns: Mapping[str, np.ndarray], name: str, spec: RetraceSpec):
        self.discount = spec.discount
        self._index = index
        self._spec = spec
        self._targets = columns[name]
        self._values = columns[spec.values]
        self._advantages = columns[spec.advantages] if spec.advantages else None
        self._ratios = columns[spec.ratios]
        self._place = np.full(index.pages.num_pages, -1, np.int32)

    def sweep(self, pages: np.ndarray, reach: Reach, tolerance: float = 0.0) -> None:
        """Bring the column up to date after the other columns changed in `pages`.

        Args:
            pages: int [N].
            reach: "episodes": back to the first step of each page's episode; "changed": back until a page's first
                number moves by no more than `tolerance`; "all": every live page; "none": no page.
            tolerance: see `reach`.
        """
        if reach == "all":
            self._sweep(self._index.live_pages.items.copy())
        elif reach == "episodes":
            self._sweep(self._with_earlier(np.unique(pages)))
        elif reach == "changed":
            # Row 0 of the other columns enters the targets of the previous page, not of its own page.
            front = np.unique(np.concatenate([pages, self._earlier(pages)]))
            while len(front):
                before = self._targets[front, 0].copy()
                self._sweep(front)
                moved = ~(np.abs(self._targets[front, 0] - before) <= tolerance)
                front = self._earlier(front[moved])

    def _earlier(self, pages: np.ndarray) -> np.ndarray:
        """Return the distinct pages before `pages` that belong to the same episode."""
        pages = pages[~self._index.pages.fields["first"][pages, 0]]
        previous = self._index.previous_page[pages]
        return np.unique(previous[previous != NO_PAGE])

    def _with_earlier(self, pages: np.ndarray) -> np.ndarray:
        seen = np.full(self._index.pages.num_pages, False)
        front = pages
        while len(front):
            seen[front] = True
            front = self._earlier(front)
            front = front[~seen[front]]
        return np.flatnonzero(seen)

    def _sweep(self, pages: np.ndarray) -> None:
        if not len(pages):
            return
        following = self._index.next_page[pages]
        offsets, factors = self._maps(pages, following)
        num_rows = len(offsets)
        # The whole page as one map from the number after it to its row 0.
        offset, factor = offsets[-1], factors[-1]
        for row in range(num_rows - 2, -1, -1):
            offset = offsets[row] + factors[row] * offset
            factor = factors[row] * factor
        place = self._place
        place[pages] = np.arange(len(pages))
        successor = np.where(following == NO_PAGE, -1, place[following])
        place[pages] = -1
        # Targets of pages outside the set are read, and end the chain.
        outside = successor == -1
        beyond = np.where(following == NO_PAGE, np.float32(0.0), self._targets[following, 0])
        offset = np.where(outside, offset + factor * beyond, offset)
        factor = np.where(outside, np.float32(0.0), factor)
        hop = np.where(outside, np.arange(len(pages)), successor)
        while factor.any():
            offset, factor, hop = offset + factor * offset[hop], factor * factor[hop], hop[hop]
        after = np.where(outside, beyond, offset[np.where(outside, 0, successor)])
        swept = np.empty((num_rows, len(pages)), np.float32)
        for row in range(num_rows - 1, -1, -1):
            after = swept[row] = offsets[row] + factors[row] * after
        self._targets[pages] = swept.T

    def _maps(self, pages: np.ndarray, following: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets and factors [T, N]: Q^ret[t] = offset + factor * Q^ret[t+1]."""
        fields = self._index.pages.fields
        valid = fields["valid"][pages]
        known = following != NO_PAGE
        values, next_values, next_traces = self._with_next(pages, following, valid)
        advantages = np.zeros_like(values)
        next_advantages: np.ndarray | float = 0.0
        if self._advantages is not None:
            advantages = self._advantages[pages]
            next_advantages = _shifted(advantages, self._advantages[following, 0])
        terminated = fields["terminated"][pages]
        discounts = np.where(terminated, np.float32(0.0), np.float32(self.discount))
        factors = discounts * next_traces
        offsets = fields["rewards"][pages] + discounts * (next_values - next_traces * (next_advantages + next_values))
        unknown = valid & ~terminated
        unknown[:, :-1] = False
        unknown[:, -1] &= ~known
        offsets = np.where(valid, np.where(unknown, values + advantages, offsets), values)
        # Rows without a transition need no correct map: the step before them has a factor of 0.
        return np.ascontiguousarray(offsets.T), np.ascontiguousarray(factors.T)

    def _with_next(
        self, pages: np.ndarray, following: np.ndarray, valid: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values = self._values[pages]
        lambda_ = np.float32(self._spec.lambda_)
        traces = np.where(valid, lambda_ * np.minimum(self._ratios[pages], np.float32(1.0)), np.float32(0.0))
        next_first = np.where(
            self._index.pages.fields["valid"][following, 0],
            lambda_ * np.minimum(self._ratios[following, 0], np.float32(1.0)),
            np.float32(0.0),
        )
        return values, _shifted(values, self._values[following, 0]), _shifted(traces, next_first)


def _shifted(rows: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return [N, T]: rows 1..T-1, then `last`."""
    return np.concatenate([rows[:, 1:], last[:, None]], axis=1)
