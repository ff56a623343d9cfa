"""Members: the queue, rate limiter, columns and samplers of each agent that uses a replay."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from laser.replay_stats import MemberStats
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.samplers import Draw, Sampler, View, samplers_called
from replay_server.samplers.log_share import draw_with_log
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import EpisodeIndex
from replay_server.store.rate_limiter import RateLimiter


class Member:
    """The state of one member in a shard: online queue, rate limiter, columns, samplers. Not thread-safe.

    The queue hands out each unroll once, first in, first out. Its entries hold a reference to their page, so that a
    queued unroll survives the removal of its episode.

    If a member's learner makes no request during its whole lease, no insert waits for it, not even its own actors'.
    Its actors continue to fill a shared replay, its queue drops the oldest unrolls, and its limiter ignores the
    inserted steps. The next request of the learner ends this state.

    Args:
        settings: the member's share on this shard.
        index: the stored episodes.
        config: of the replay.
    """

    def __init__(self, settings: MemberSettings, index: EpisodeIndex, config: ReplayConfig):
        self.settings = settings
        self._index = index
        self._config = config
        self.limiter = RateLimiter(settings.rate)
        self.renew_lease()
        self.columns = Columns(index.pages, index.unroll_length, settings.columns)
        self.columns.on_write = self._written
        # A member without the sampler's column draws only episode streams or fresh unrolls.
        self._kinds = {
            view: kind
            for view, kind in samplers_called(config.sampler).items()
            if (not kind.column or kind.column in self.columns.arrays)
            and (view != "sequences" or index.starts is not None)
        }
        self.samplers: dict[View, Sampler] = {}  # of the views that have been drawn
        # Number of draws of each step; of an unroll in its row 0, of a sequence at its first step.
        self.num_draws = np.zeros((index.pages.num_pages, index.unroll_length), np.uint16)
        self.queue: deque[int] = deque()
        self.num_queued_ever = 0
        self.num_handed_out = 0
        self.dropped: dict[str, int] = {}

    def queue_lacks(self, num_unrolls: int, num_wanted: int, warming_up: bool) -> str | None:
        """Return why `num_unrolls` may not be queued now, or None.

        While the replay is `warming_up`, the queue has no bound: the learner cannot take unrolls yet, and a bound wide
        enough for the warm-up would keep fresh experience waiting ever after. While a batch of `num_wanted` waits for
        more unrolls than are queued, one message may exceed the capacity; otherwise the batch and the message would
        wait for each other.
        """
        capacity = self.settings.online_capacity
        if not capacity or len(self.queue) + num_unrolls <= capacity or len(self.queue) < num_wanted or warming_up:
            return None
        return (
            f"online queue of member {self.settings.member} is full ({len(self.queue)} of {capacity} unrolls): "
            "the learner does not take unrolls"
        )

    def never_takes(self, num_unrolls: int, num_steps: int) -> str | None:
        """Return why one message with `num_unrolls` and `num_steps` of this member can never be stored, or None."""
        capacity, limit = self.settings.online_capacity, self.settings.rate
        if capacity and num_unrolls > capacity:
            return f"{num_unrolls} unrolls in one message exceed the online queue's capacity of {capacity}"
        if limit.limits and num_steps > limit.max_insert_steps:
            return (
                f"{num_steps} steps in one message exceed the rate limiter's max_insert_steps {limit.max_insert_steps}"
            )
        return None

    def renew_lease(self) -> None:
        """Renew the lease, after a request of the member's learner."""
        self.lease_ends_at = time.monotonic() + self._config.lease_s

    @property
    def views(self) -> list[View]:
        """The views that the member may draw, besides episode streams."""
        return sorted(self._kinds)

    def draws_with_log(self, view: str) -> bool:
        """Return whether draws of a view can have a given number of items from a log."""
        return self._index.parts is not None and any(
            name == view and kind.draws_parts() for name, kind in self._kinds.items()
        )

    def draw(self, view: View, num_items: int, num_from_log: int | None, rng: np.random.Generator) -> Draw:
        """Draw items by the sampler of their view; see `laser.ports.SampleRequest.num_from_log`."""
        sampler = self.sampler(view)
        if num_from_log is None:
            return sampler.draw(num_items, rng)
        return draw_with_log(sampler, num_items, num_from_log, rng)

    def sampler(self, view: View) -> Sampler:
        """Return the sampler of a view; it is made when first needed, since few members draw more than one view."""
        if view not in self.samplers:
            self.samplers[view] = self._kinds[view](self._index, view, self.columns, self._config)
            self.samplers[view].inserted(self._index.live_pages.items)
        return self.samplers[view]

    def inserted(self, pages: np.ndarray) -> None:
        """Add freshly inserted pages, of any member."""
        self.columns.reset(pages)
        self.num_draws[pages] = 0
        for sampler in self.samplers.values():
            sampler.inserted(pages)

    def forgotten(self, pages: np.ndarray) -> None:
        """Drop the rows of these pages that are no longer stored."""
        for sampler in self.samplers.values():
            sampler.forgotten(pages)

    def count(self, view: View, draw: Draw) -> np.ndarray:
        """Count a draw; return the number of draws of each of its items so far, int64 [N], at most 65,535."""
        counts = self.num_draws.reshape(-1)
        items = draw.pages.astype(np.int64) * self._index.unroll_length + (0 if view == "unrolls" else draw.rows)
        most = np.iinfo(np.uint16).max
        if counts.take(items).max(initial=0) <= most - len(items):
            np.add.at(counts, items, np.uint16(1))
        else:  # some counts may exceed the largest number, and would wrap to 0
            distinct, times = np.unique(items, return_counts=True)
            counts[distinct] = np.minimum(counts[distinct] + times, most)
        return counts.take(items).astype(np.int64)

    def redraw(self, rng: np.random.Generator) -> None:
        """Make samplers choose anew the steps that may be drawn."""
        for sampler in self.samplers.values():
            sampler.redraw(rng)

    def _written(self, pages: np.ndarray, rows: np.ndarray, width: int) -> None:
        for sampler in self.samplers.values():
            sampler.written(pages, rows, width)

    def enqueue(self, pages: np.ndarray) -> None:
        """Queue freshly inserted pages; the caller has added their references."""
        self.queue.extend(pages.tolist())
        self.num_queued_ever += len(pages)

    def dequeue(self, num_unrolls: int) -> np.ndarray:
        """Remove and return the oldest entries' pages; the caller drops their references once they are read."""
        self.num_handed_out += num_unrolls
        return np.array([self.queue.popleft() for _ in range(num_unrolls)], np.int32)

    def drop_queue(self, reason: str, num_left: int = 0) -> np.ndarray:
        """Remove the oldest entries until `num_left` remain, count them under `reason`, and return their pages."""
        num_dropped = max(0, len(self.queue) - num_left)
        pages = np.array([self.queue.popleft() for _ in range(num_dropped)], np.int32)
        if num_dropped:
            self.dropped[reason] = self.dropped.get(reason, 0) + num_dropped
        return pages

    @property
    def num_bytes(self) -> int:
        """Bytes of columns, draw counts and samplers."""
        return (
            self.columns.num_bytes
            + self.num_draws.nbytes
            + sum(sampler.num_bytes for sampler in self.samplers.values())
        )

    @property
    def imbalance(self) -> int:
        """Queued ever - handed out - queued - dropped, which is 0."""
        return self.num_queued_ever - self.num_handed_out - len(self.queue) - sum(self.dropped.values())

    def stats(self) -> MemberStats:
        """Return counters and sizes."""
        return MemberStats(
            self.num_queued_ever,
            self.num_handed_out,
            len(self.queue),
            dict(self.dropped),
            self.limiter.inserted_steps,
            self.limiter.sampled_steps,
            self.limiter.difference,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the member's state."""
        return {
            "queue": list(self.queue),
            "num_queued_ever": self.num_queued_ever,
            "num_handed_out": self.num_handed_out,
            "dropped": dict(self.dropped),
            "limiter": self.limiter.state_dict(),
            "columns": self.columns.state_dict(),
            "num_draws": self.num_draws.copy(),
            "samplers": {view: sampler.state_dict() for view, sampler in self.samplers.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.queue = deque(state["queue"])
        self.num_queued_ever = state["num_queued_ever"]
        self.num_handed_out = state["num_handed_out"]
        self.dropped = dict(state["dropped"])
        self.limiter.load_state_dict(state["limiter"])
        self.columns.load_state_dict(state["columns"])
        self.num_draws[...] = state["num_draws"]
        self.samplers = {}
        for view in state["samplers"].keys() & self._kinds.keys():  # it may have drawn another view before
            self.sampler(view).load_state_dict(state["samplers"][view])
