"""The episode index: assigns the rows of pages to episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from laser.ports import View
from replay_server.storage.dense_set import DenseSet
from replay_server.storage.log_parts import LogParts, Part
from replay_server.storage.pages import Pages
from replay_server.storage.sequence_starts import SequenceStarts

# (run, actor, incarnation, environment): one uninterrupted sequence of unrolls.
StreamKey = tuple[int, int, int, int]

NO_EPISODE = -1
NO_PAGE = -1


@dataclass(slots=True)
class Episode:
    """A live episode: a chain of page segments, all rows of the pages between its first and its last row.

    Args:
        slot: its number among live episodes; reused after its removal.
        pages: pages in time order.
        start_row: first row, in the first page.
        stop_row: one past the last row, in the last page.
        num_steps: number of its valid steps.
        first_order: number of pages appended before its first page.
        last_order: number of pages appended before its last page.
        finished: whether no more rows will come.
        complete: whether it is stored from its first step.
        ended: whether it is stored to its last row, which holds the final observation.
        num_pins: number of readers that need it; while it is positive, the episode is not removed.
    """

    slot: int
    pages: list[int]
    start_row: int
    stop_row: int
    num_steps: int
    first_order: int
    last_order: int
    finished: bool = False
    complete: bool = True
    ended: bool = False
    num_pins: int = 0

    @property
    def streamable(self) -> bool:
        """Whether it can be walked from its first step to its last row."""
        return self.ended and self.complete and self.num_steps > 0


@dataclass(slots=True)
class _Tail:
    # The end of a key's unrolls so far, which the next unroll may continue.
    page: int
    generation: int
    sequence: int
    open_slot: int = NO_EPISODE


@dataclass
class EpisodeIndex:
    """Live episodes, and the neighbours of each page. Not thread-safe.

    Appending N unrolls costs a few NumPy calls and a short Python step per unroll; forgetting an episode of n pages a
    few NumPy calls. A page may hold the end of one episode and the start of the next; it is released when no live
    episode refers to it.

    Args:
        pages: hold the unrolls.
        unroll_length: T.
        counts_starts: whether `starts` counts where sequences may begin, for members that draw them at any step.
        splits_log: whether `parts` holds what came from a log apart from the rest, for draws with a share of each.
    """

    pages: Pages
    unroll_length: int
    counts_starts: bool = False
    splits_log: bool = False
    episodes: dict[int, Episode] = field(default_factory=dict, init=False)
    open: dict[int, Episode] = field(default_factory=dict, init=False)
    finished: dict[int, Episode] = field(default_factory=dict, init=False)
    num_steps: int = field(default=0, init=False)
    num_streamable: int = field(default=0, init=False)
    num_streamable_steps: int = field(default=0, init=False)
    longest_streamable: int = field(default=0, init=False)  # steps of the longest one ever stored

    def __post_init__(self) -> None:
        num_pages, num_rows = self.pages.num_pages, self.pages.num_pages * self.unroll_length
        # Slot of the live episode that each valid row belongs to; samplers test and weigh rows by it.
        self.episode_of_row = np.full((num_pages, self.unroll_length), NO_EPISODE, np.int32)
        self.steps_of_episode = np.full(num_rows, 0, np.int32)
        # Updated by `FarSteps`; removers weigh episodes by it.
        self.far_of_episode = np.full(num_rows, 0, np.int32)
        self.next_page = np.full(num_pages, NO_PAGE, np.int32)
        self.previous_page = np.full(num_pages, NO_PAGE, np.int32)
        self.num_segments = np.full(num_pages, 0, np.int32)
        self.order = np.full(num_pages, 0, np.int64)
        # Whether an episode begins after row 0 and before row T: few pages have that, and the others are read faster.
        self.begins_inside = np.full(num_pages, False)
        self.live_pages = DenseSet(num_pages)
        self.live_episodes = DenseSet(num_rows)  # episodes with at least one valid step
        self.parts = LogParts(self.pages.headers) if self.splits_log else None
        self.starts: SequenceStarts | None = None
        if self.counts_starts:
            self.starts = SequenceStarts(
                self.episode_of_row,
                self.next_page,
                self.previous_page,
                self.num_segments,
                self.live_pages,
                self.parts,
            )
        self._unused_slots: list[int] = []
        self._num_slots = 0
        self._num_appended = 0
        self._tails: dict[StreamKey, _Tail] = {}

    # -- growing -------------------------------------------------------------------------------------------------------

    def append(self, pages: np.ndarray, keys: Sequence[StreamKey], sequences: Sequence[int]) -> None:
        """Add freshly inserted pages, one unroll each, in order.

        Args:
            pages: int32 [N], distinct, already filled.
            keys: the key of each unroll.
            sequences: the sequence number of each unroll. One more than the key's last number continues the episode;
                any other number is a gap that ends the episode before it.
        """
        unroll_length = self.unroll_length
        first = self.pages.fields["first"][pages]
        valid = self.pages.fields["valid"][pages]
        slots = np.empty(valid.shape, np.int32)
        num_segments = np.ones(len(pages), np.int32)
        begins, ends = first[:, 0].tolist(), first[:, unroll_length].tolist()
        steps = valid.sum(axis=1).tolist()
        cuts: dict[int, list[int]] = {}
        for unroll, row in zip(*(part.tolist() for part in np.nonzero(first[:, 1:unroll_length])), strict=True):
            cuts.setdefault(unroll, []).append(row + 1)
        self.begins_inside[pages] = False
        self.begins_inside[pages[list(cuts)]] = True
        generations = self.pages.generation[pages].tolist()
        orders = range(self._num_appended, self._num_appended + len(pages))
        self.order[pages] = orders
        self._num_appended += len(pages)

        for i, (page, key, sequence) in enumerate(zip(pages.tolist(), keys, sequences, strict=True)):
            tail = self._tails.get(key)
            follows = tail is not None and tail.sequence + 1 == sequence
            if tail is not None and tail.open_slot != NO_EPISODE and (begins[i] or not follows):
                self._finish(tail.open_slot)
                tail.open_slot = NO_EPISODE
            if follows and tail is not None and self.pages.generation[tail.page] == tail.generation:
                self.next_page[tail.page], self.previous_page[page] = page, tail.page
            slot = tail.open_slot if tail is not None else NO_EPISODE
            starts = [0, *cuts.get(i, ())]
            num_segments[i] = len(starts)
            for start, stop in zip(starts, [*starts[1:], unroll_length], strict=True):
                num_steps = steps[i] if len(starts) == 1 else int(valid[i, start:stop].sum())
                if slot == NO_EPISODE:
                    complete = start > 0 or begins[i]
                    slot = self._begin(page, start, orders[i], complete)
                    episode = self.episodes[slot]
                else:
                    episode = self.episodes[slot]
                    episode.pages.append(page)
                    episode.last_order = orders[i]
                episode.stop_row = stop
                self._add_steps(episode, num_steps)
                slots[i, start:stop] = slot
                if stop < unroll_length or ends[i]:
                    self._finish(slot, ended=True)
                    slot = NO_EPISODE
            self._tails[key] = _Tail(page, generations[i], sequence, slot)

        self.episode_of_row[pages] = np.where(valid, slots, NO_EPISODE)
        self.num_segments[pages] = num_segments
        self.pages.retain(pages, num_segments)
        self.live_pages.add(pages)
        if self.parts is not None:
            self.parts.add(pages)
        if self.starts is not None:
            self.starts.update(pages)

    def close_stream(self, key: StreamKey) -> None:
        """End a key whose unrolls will never continue; its open episode is finished at its last stored row."""
        tail = self._tails.pop(key, None)
        if tail is not None and tail.open_slot != NO_EPISODE:
            self._finish(tail.open_slot)

    def _begin(self, page: int, row: int, order: int, complete: bool) -> int:
        if self._unused_slots:
            slot = self._unused_slots.pop()
        else:
            slot, self._num_slots = self._num_slots, self._num_slots + 1
        episode = Episode(slot, [page], row, row, 0, order, order, complete=complete)
        self.episodes[slot] = self.open[slot] = episode
        return slot

    def _finish(self, slot: int, *, ended: bool = False) -> None:
        episode = self.open.pop(slot)
        episode.finished, episode.ended = True, ended
        self.finished[slot] = episode
        if episode.streamable:
            self.num_streamable += 1
            self.num_streamable_steps += episode.num_steps
            self.longest_streamable = max(self.longest_streamable, episode.num_steps)

    def _add_steps(self, episode: Episode, num_steps: int) -> None:
        had_steps = episode.num_steps > 0
        episode.num_steps += num_steps
        self.num_steps += num_steps
        if self.parts is not None:
            self.parts.part_of(episode.pages[-1]).num_steps += num_steps
        self.steps_of_episode[episode.slot] = episode.num_steps
        if had_steps != (episode.num_steps > 0):
            slot = np.array([episode.slot], np.int32)
            if had_steps:
                self.live_episodes.remove(slot)
            else:
                self.live_episodes.add(slot)

    # -- forgetting ----------------------------------------------------------------------------------------------------

    def forget(self, episode: Episode) -> np.ndarray:
        """Remove a whole finished episode, or the oldest page of an open one; return the pages that became free."""
        assert not episode.num_pins
        return self._remove(episode) if episode.finished else self._trim(episode)

    def _remove(self, episode: Episode) -> np.ndarray:
        pages = np.array(episode.pages, np.int32)
        start, stop = episode.start_row, episode.stop_row
        if len(pages) == 1:
            self.episode_of_row[pages[0], start:stop] = NO_EPISODE
        else:
            self.episode_of_row[pages[0], start:] = NO_EPISODE
            self.episode_of_row[pages[1:-1]] = NO_EPISODE
            self.episode_of_row[pages[-1], :stop] = NO_EPISODE
        if episode.streamable:
            self.num_streamable -= 1
            self.num_streamable_steps -= episode.num_steps
        self._add_steps(episode, -episode.num_steps)
        del self.episodes[episode.slot]
        (self.finished if episode.finished else self.open).pop(episode.slot)
        self._unused_slots.append(episode.slot)
        return self._drop_segments(pages)

    def _trim(self, episode: Episode) -> np.ndarray:
        if len(episode.pages) == 1:
            self._finish(episode.slot)
            for tail in self._tails.values():
                if tail.open_slot == episode.slot:
                    tail.open_slot = NO_EPISODE
            return self._remove(episode)
        page = episode.pages.pop(0)
        rows = self.episode_of_row[page, episode.start_row :]
        self._add_steps(episode, -int((rows == episode.slot).sum()))
        rows[:] = NO_EPISODE
        episode.start_row, episode.complete = 0, False
        episode.first_order = int(self.order[episode.pages[0]])
        return self._drop_segments(np.array([page], np.int32))

    def _drop_segments(self, pages: np.ndarray) -> np.ndarray:
        self.num_segments[pages] -= 1
        gone = pages[self.num_segments[pages] == 0]
        self.live_pages.remove(gone)
        if self.parts is not None:
            self.parts.remove(gone)
        freed = self.release(pages)
        if self.starts is not None:
            self.starts.update(pages)
        return freed

    def release(self, pages: np.ndarray) -> np.ndarray:
        """Drop one reference to each of these distinct pages; return the pages that became free."""
        freed = self.pages.release(pages)
        before, after = self.previous_page[freed], self.next_page[freed]
        self.next_page[before[before != NO_PAGE]] = NO_PAGE
        self.previous_page[after[after != NO_PAGE]] = NO_PAGE
        self.next_page[freed] = self.previous_page[freed] = NO_PAGE
        return freed

    # -- reading -------------------------------------------------------------------------------------------------------

    def pin(self, episode: Episode) -> None:
        """Protect a finished episode from removal until an equal number of `unpin` calls."""
        assert episode.finished
        episode.num_pins += 1

    def unpin(self, episode: Episode) -> None:
        """Take back one `pin`."""
        assert episode.num_pins > 0
        episode.num_pins -= 1

    def num_rows(self, episode: Episode) -> int:
        """Return the number of an episode's rows, including rows without a transition."""
        return (len(episode.pages) - 1) * self.unroll_length + episode.stop_row - episode.start_row

    def num_in(self, part: Part, view: View) -> int:
        """Return how many items of a view may be drawn from a part; 0 for episode streams, which know no parts."""
        if view == "sequences":
            return part.num_starts
        if view == "streams" or not part.num_steps:
            return 0
        return part.num_steps if view == "steps" else len(part.pages)

    def num_of_log(self, view: View) -> int:
        """Return how many items of a view are of a log; 0 without `splits_log`."""
        return 0 if self.parts is None else self.num_in(self.parts.log, view)

    @property
    def num_bytes(self) -> int:
        """Bytes of the preallocated arrays, without the Python records of episodes."""
        arrays = (
            self.episode_of_row,
            self.steps_of_episode,
            self.far_of_episode,
            self.next_page,
            self.previous_page,
        )
        counts = self.num_segments.nbytes + self.order.nbytes + self.begins_inside.nbytes
        sets = self.live_pages.num_bytes + self.live_episodes.num_bytes
        starts = 0 if self.starts is None else self.starts.num_bytes
        parts = 0 if self.parts is None else self.parts.num_bytes
        return sum(array.nbytes for array in arrays) + counts + sets + starts + parts

    def check_valid(self) -> None:
        """Assert every invariant by recounting, O(everything); for tests."""
        unroll_length = self.unroll_length
        episode_of_row = np.full_like(self.episode_of_row, NO_EPISODE)
        num_segments = np.zeros_like(self.num_segments)
        assert self.episodes == {**self.open, **self.finished}
        assert len(self.episodes) == len(self.open) + len(self.finished)
        for slot, episode in self.episodes.items():
            assert slot == episode.slot
            assert (slot in self.finished) == episode.finished
            assert len(set(episode.pages)) == len(episode.pages) > 0
            for place, page in enumerate(episode.pages):
                start = episode.start_row if place == 0 else 0
                stop = episode.stop_row if place == len(episode.pages) - 1 else unroll_length
                rows = np.arange(start, stop)[self.pages.fields["valid"][page, start:stop]]
                assert (episode_of_row[page, rows] == NO_EPISODE).all()
                episode_of_row[page, rows] = slot
                num_segments[page] += 1
            for page, following in zip(episode.pages, episode.pages[1:], strict=False):
                assert self.next_page[page] == following
                assert self.previous_page[following] == page
            assert episode.num_steps == (episode_of_row == slot).sum() == self.steps_of_episode[slot]
            assert episode.first_order == self.order[episode.pages[0]]
            assert episode.last_order == self.order[episode.pages[-1]]
        assert (self.episode_of_row == episode_of_row).all()
        assert (self.num_segments == num_segments).all()
        assert self.num_steps == (episode_of_row != NO_EPISODE).sum()
        assert sorted(self.live_pages.items) == np.flatnonzero(num_segments).tolist()
        assert sorted(self.live_episodes.items) == sorted(s for s, e in self.episodes.items() if e.num_steps)
        free = self.pages.free.is_free()
        assert ((self.pages.references == 0) == free).all()
        assert (self.pages.references >= num_segments).all()
        for page in np.flatnonzero(free).tolist():
            assert self.next_page[page] == self.previous_page[page] == NO_PAGE
        for page in np.flatnonzero(self.next_page != NO_PAGE).tolist():
            assert self.previous_page[self.next_page[page]] == page
        streamable = [episode.num_steps for episode in self.episodes.values() if episode.streamable]
        assert (self.num_streamable, self.num_streamable_steps) == (len(streamable), sum(streamable))
        assert max(streamable, default=0) <= self.longest_streamable
        open_in_tails = [tail.open_slot for tail in self._tails.values() if tail.open_slot != NO_EPISODE]
        assert sorted(open_in_tails) == sorted(self.open)
        if self.starts is not None:
            self.starts.check_valid()
        if self.parts is not None:
            self.parts.check_valid(self.live_pages.items, self.episode_of_row)

    def state_dict(self) -> dict[str, Any]:
        """Return the state without pins: readers pin their episodes again after a restore."""
        return {
            "episodes": [{**asdict(episode), "num_pins": 0} for episode in self.episodes.values()],
            "open": list(self.open),
            "finished": list(self.finished),
            "tails": [[list(key), asdict(tail)] for key, tail in self._tails.items()],
            "unused_slots": list(self._unused_slots),
            "num_slots": self._num_slots,
            "num_appended": self._num_appended,
            "num_steps": self.num_steps,
            "longest_streamable": self.longest_streamable,
            "episode_of_row": self.episode_of_row.copy(),
            "next_page": self.next_page.copy(),
            "previous_page": self.previous_page.copy(),
            "num_segments": self.num_segments.copy(),
            "order": self.order.copy(),
            "begins_inside": self.begins_inside.copy(),
            "live_pages": self.live_pages.state_dict(),
            "live_episodes": self.live_episodes.state_dict(),
            **({} if self.parts is None else {"parts": self.parts.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`; the pages must be restored before."""
        self.episodes = {item["slot"]: Episode(**item) for item in state["episodes"]}
        # The order of these dicts is the order of removal.
        self.open = {slot: self.episodes[slot] for slot in state["open"]}
        self.finished = {slot: self.episodes[slot] for slot in state["finished"]}
        self._tails = {tuple(key): _Tail(**tail) for key, tail in state["tails"]}
        self._unused_slots = list(state["unused_slots"])
        self._num_slots = state["num_slots"]
        self._num_appended = state["num_appended"]
        self.num_steps, self.longest_streamable = state["num_steps"], state["longest_streamable"]
        streamable = [episode.num_steps for episode in self.episodes.values() if episode.streamable]
        self.num_streamable, self.num_streamable_steps = len(streamable), sum(streamable)
        for name in ("episode_of_row", "next_page", "previous_page", "num_segments", "order", "begins_inside"):
            getattr(self, name)[...] = state[name]
        for slot, episode in self.episodes.items():
            self.steps_of_episode[slot] = episode.num_steps
        self.live_pages.load_state_dict(state["live_pages"])
        self.live_episodes.load_state_dict(state["live_episodes"])
        if self.parts is not None:
            self.parts.load_state_dict(state.get("parts"), self.live_pages.items, self.episode_of_row)
        if self.starts is not None:
            self.starts.recount()
