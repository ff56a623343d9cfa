"""Episode streams: readers that walk finished episodes from their first step, T rows at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from laser.ports import PortError, Sample, SampleRequest
from replay_server.storage.episode_index import Episode, EpisodeIndex

# Candidates per attempt to draw an episode; nearly all stored episodes can be walked.
_TRIES = 4


@dataclass(frozen=True)
class StreamRows:
    """The places of the next T+1 rows of N streams.

    Args:
        pages: int64 [N, T+1].
        rows: int64 [N, T+1], in 0..T-1 of the page; row T of a stream is row 0 of its next piece.
        probabilities: float64 [N], the probability with which the episode of row 0 was drawn.
    """

    pages: np.ndarray
    rows: np.ndarray
    probabilities: np.ndarray


@dataclass(slots=True)
class _Cursor:
    # A pinned episode and the number of its rows that have been handed out.
    episode: Episode
    pages: np.ndarray
    num_rows: int
    probability: float
    at: int = 0


@dataclass(slots=True)
class _StreamSet:
    lease_until: float
    sequence: int  # of the next request
    cursors: dict[int, _Cursor | None] = field(default_factory=dict)  # None: the next row begins an episode
    answer: Sample | None = None  # to the newest request, in case it is repeated


class EpisodeStreams:
    """All episode streams of a shard, by member and set. Not thread-safe.

    A stream pins the episode it walks. The pin is released when the episode's end has been handed out, when a later
    request no longer names the stream, when the set's lease expires, and when the replay has no other room
    (`cut_oldest`). After any early end, the stream's next piece begins an episode, with `first` True: states never mix.
    `counts` has the number of streams that ended early: "restarted" (a set was unknown, or requests were missing),
    "cut" (no room), "expired" (no request for the whole lease).

    Args:
        index: holds the episodes.
        weight: "episode": every finished episode is equally likely; "length": every step is.
        lease_s: seconds a set lives without a request.
        clock: of leases.
    """

    def __init__(
        self,
        index: EpisodeIndex,
        weight: Literal["episode", "length"],
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._index = index
        self._by_length = weight == "length"
        self._lease_s = lease_s
        self._clock = clock
        self._sets: dict[tuple[int, int], _StreamSet] = {}
        self.counts: Counter[str] = Counter()

    def repeated(self, request: SampleRequest) -> Sample | None:
        """Return the earlier answer if this request repeats the newest one, or None.

        Raises:
            PortError: a later request of the set has been answered already.
        """
        streams = self._sets.get((request.member, request.stream_set))
        if streams is None:
            return None
        streams.lease_until = self._clock() + self._lease_s
        if request.sequence < streams.sequence - 1:
            raise PortError(
                f"request {request.sequence} of stream set {request.stream_set} came after request "
                f"{streams.sequence - 1} had been answered; ask with the numbers in order, or choose a new set"
            )
        answer = streams.answer
        if request.sequence == streams.sequence or answer is None or answer.streams is None:
            return None
        same_streams = answer.streams.tolist() == list(_numbers(request))
        return answer if request.sequence == streams.sequence - 1 and same_streams else None

    def advance(self, request: SampleRequest, rng: np.random.Generator) -> StreamRows:
        """Advance the request's streams by T rows; the index must hold an episode that can be walked."""
        self.expire()
        key = (request.member, request.stream_set)
        streams = self._sets.get(key)
        numbers = _numbers(request)
        now = self._clock()
        if streams is None or streams.sequence != request.sequence:
            if request.sequence > 0:
                self.counts["restarted"] += len(numbers)
            if streams is not None:
                self._let_go(streams)
            streams = self._sets[key] = _StreamSet(now, request.sequence)
        for number in set(streams.cursors) - set(numbers):
            self._unpin(streams.cursors.pop(number))
        num_rows = self._index.unroll_length + 1
        pages, rows = (np.empty((len(numbers), num_rows), np.int64) for _ in range(2))
        probabilities = np.empty(len(numbers))
        for i, number in enumerate(numbers):
            cursor, probabilities[i] = self._walk(streams.cursors.get(number), pages[i], rows[i], rng)
            streams.cursors[number] = cursor
        streams.sequence = request.sequence + 1
        streams.lease_until = now + self._lease_s
        streams.answer = None
        return StreamRows(pages, rows, probabilities)

    def keep(self, request: SampleRequest, answer: Sample) -> None:
        """Keep the answer to the newest request, in case it is repeated."""
        self._sets[request.member, request.stream_set].answer = answer

    def _walk(
        self, cursor: _Cursor | None, pages: np.ndarray, rows: np.ndarray, rng: np.random.Generator
    ) -> tuple[_Cursor, float]:
        probability = None
        filled = 0
        while True:
            if cursor is None:
                cursor = self._draw(rng)
            if probability is None:
                probability = cursor.probability
            num = min(len(pages) - filled, cursor.num_rows - cursor.at)
            start = cursor.episode.start_row + cursor.at
            place, row = np.divmod(np.arange(start, start + num), self._index.unroll_length)
            pages[filled : filled + num], rows[filled : filled + num] = cursor.pages[place], row
            filled += num
            cursor.at += num
            if filled == len(pages):
                cursor.at -= 1  # row T is only a boundary here, and row 0 of the next piece
                return cursor, probability
            self._unpin(cursor)
            cursor = None

    def _draw(self, rng: np.random.Generator) -> _Cursor:
        index = self._index
        while True:
            slots = index.live_episodes.draw(_TRIES, rng).tolist()
            limits = (rng.random(_TRIES) * index.longest_streamable).tolist() if self._by_length else [0.0] * _TRIES
            for slot, limit in zip(slots, limits, strict=True):
                episode = index.episodes[slot]
                if not episode.streamable or episode.num_steps <= limit:
                    continue
                share = episode.num_steps / index.num_streamable_steps if self._by_length else 1 / index.num_streamable
                return self._pinned(episode, share)

    # -- releasing pins ------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Remove the sets whose lease has expired."""
        now = self._clock()
        for key in [key for key, streams in self._sets.items() if streams.lease_until < now]:
            streams = self._sets.pop(key)
            self.counts["expired"] += len(streams.cursors)
            self._let_go(streams)

    def cut_oldest(self, before: int | None) -> bool:
        """End the streams on the oldest pinned episode, so that it may be removed; return False if there is none.

        Args:
            before: consider only episodes whose `Episode.first_order` is smaller; None: all.
        """
        self.expire()
        places = [
            (cursor.episode.first_order, cursor.episode.slot, streams, number)
            for streams in self._sets.values()
            for number, cursor in streams.cursors.items()
            if cursor is not None
        ]
        oldest = min(((order, slot) for order, slot, _, _ in places), default=None)
        if oldest is None or (before is not None and oldest[0] >= before):
            return False
        for order, slot, streams, number in places:
            if (order, slot) == oldest:
                self._unpin(streams.cursors[number])
                streams.cursors[number] = None
                self.counts["cut"] += 1
        return True

    def _let_go(self, streams: _StreamSet) -> None:
        for cursor in streams.cursors.values():
            self._unpin(cursor)

    def _unpin(self, cursor: _Cursor | None) -> None:
        if cursor is not None:
            self._index.unpin(cursor.episode)

    # -- statistics and saving -----------------------------------------------------------------------------------------

    @property
    def num_streams(self) -> int:
        """Number of live streams."""
        return sum(len(streams.cursors) for streams in self._sets.values())

    def num_pins(self) -> Counter[int]:
        """Return the number of streams on each episode, by slot; for tests."""
        cursors = [cursor for streams in self._sets.values() for cursor in streams.cursors.values()]
        return Counter(cursor.episode.slot for cursor in cursors if cursor is not None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state; after a restore leases begin anew, and the newest request cannot be repeated."""
        return {
            "counts": dict(self.counts),
            "sets": [
                {
                    "key": list(key),
                    "sequence": streams.sequence,
                    "cursors": [
                        [number, None if cursor is None else [cursor.episode.slot, cursor.at, cursor.probability]]
                        for number, cursor in streams.cursors.items()
                    ],
                }
                for key, streams in self._sets.items()
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict` and pin the episodes again; the index must be restored before."""
        self.counts = Counter(state["counts"])
        self._sets = {}
        for item in state["sets"]:
            streams = _StreamSet(self._clock() + self._lease_s, item["sequence"])
            for number, place in item["cursors"]:
                streams.cursors[number] = None if place is None else self._restored(*place)
            self._sets[tuple(item["key"])] = streams

    def _restored(self, slot: int, at: int, probability: float) -> _Cursor:
        cursor = self._pinned(self._index.episodes[slot], probability)
        cursor.at = at
        return cursor

    def _pinned(self, episode: Episode, probability: float) -> _Cursor:
        self._index.pin(episode)
        return _Cursor(episode, np.array(episode.pages, np.int64), self._index.num_rows(episode), probability)


def _numbers(request: SampleRequest) -> tuple[int, ...]:
    return request.streams or tuple(range(request.num_items))
