"""Mixing: requests fresh and replayed unrolls from the replay and combines them into batches."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from laser.messages import take_sample
from laser.ports import PortAwayError, PortTimeoutError, ReplayPort, Sample, SampleRequest
from laser.replay_stats import ReplayStats

# A request that finds too little fails after this long with a message that says what was missing, and is sent again.
_ASK_AGAIN_S = 10.0
# While a batch is missing, the statistics of the replay are read this often, to see whether anything arrives.
_STATS_INTERVAL_S = 1.0
# Between two requests to a replay that is away and refuses them at once.
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Mix:
    """The samples of one batch; fresh sequences come first.

    Args:
        online: fresh unrolls, or None when the batch has none.
        replayed: replayed items, or None when the batch has none.
        drawn: the items of all n batches that were drawn together, or None; batch k has items k, k + n, ...
    """

    online: Sample | None
    replayed: Sample | None
    drawn: Sample | None = None

    @property
    def num_online(self) -> int:
        """Number of fresh sequences."""
        return 0 if self.online is None else len(self.online.unrolls)

    @property
    def parts(self) -> list[Sample]:
        """The samples that are not None, fresh ones first."""
        return [part for part in (self.online, self.replayed) if part is not None]


class PoissonReplays:
    """Draws the number of replay-only batches that follow each batch, Poisson distributed, from its own generator.

    Args:
        mean: of the Poisson distribution.
        num_items: replayed unrolls of a replay-only batch.
        seed: of the generator.
    """

    def __init__(self, mean: float, num_items: int, seed: int):
        self.mean = mean
        self.num_items = num_items
        self._generator = np.random.default_rng([seed, 1])

    def draw(self) -> int:
        """Return the number of replay-only batches that follow the next batch."""
        return int(self._generator.poisson(self.mean))

    def state_dict(self) -> dict[str, Any]:
        """Return the generator's state as JSON values."""
        return dict(self._generator.bit_generator.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self._generator.bit_generator.state = state


class LogShare:
    """The number of replayed items of each request that come from a log, so that over many requests the share is exact.

    What rounding adds to a request or takes from it is made up for by the next ones; nothing is drawn at random.

    Args:
        share: returns the share of now, in [0, 1].
    """

    def __init__(self, share: Callable[[], float]):
        self.owed = 0.0  # items of a log that earlier requests had too few, within +-0.5 while the share stays
        self._share = share

    def num_of(self, num_items: int) -> int:
        """Return how many of the next `num_items` come from a log."""
        wanted = self._share() * num_items + self.owed
        num = min(num_items, max(0, round(wanted)))
        self.owed = wanted - num
        return num


@dataclass
class _Asked:
    request: SampleRequest
    answer: Future[Sample]


class Mixer:
    """Draws batches of exactly `num_online` fresh and `num_replayed` replayed unrolls, and replay-only batches.

    The wait for a batch may last as long as the member's own unrolls keep arriving in the replay: slow environments
    need long to fill a batch. Used from one thread.

    Args:
        replay: source of the experience.
        member: the member whose fresh experience is used.
        num_online: fresh unrolls per batch.
        num_replayed: replayed items per batch.
        num_in_flight: batches requested ahead of time; 0 requests a batch only when it is needed (repeatable order).
        deadline_s: seconds to wait for a batch while nothing arrives.
        stream_set: replayed sequences are episode streams of the set with this number; None: whole unrolls.
        n_step: replayed items are windows of `n_step` steps, folded to one row; 0: whole unrolls.
        discount: gamma that windows are folded with; may be changed.
        reward_clip: each reward of a window is first clipped to +- this.
        replays: number of replay-only batches after each batch; None: always 0.
        batches_per_draw: batches of windows per request.
        view: what else is replayed: whole unrolls, or sequences that begin at any step.
        log_share: how many replayed items come from a log; None: as many as chance gives.
    """

    def __init__(
        self,
        replay: ReplayPort,
        member: int,
        num_online: int,
        num_replayed: int,
        num_in_flight: int,
        deadline_s: float,
        stream_set: int | None = None,
        n_step: int = 0,
        discount: float = 1.0,
        reward_clip: float = math.inf,
        replays: PoissonReplays | None = None,
        batches_per_draw: int = 1,
        view: Literal["unrolls", "sequences"] = "unrolls",
        log_share: LogShare | None = None,
    ):
        self.waiting_for = ""
        self.replays = replays
        self.log_share = log_share
        self.num_replays_due = 0  # replay-only batches still to request
        self.stream_set = stream_set
        self.num_asked = 0  # number of the next request for episode streams, unless they restart
        self._restart = False
        self.discount = discount
        self._n_step = n_step
        self._view: Literal["unrolls", "sequences"] = view
        self._reward_clip = reward_clip
        self._replay = replay
        self._member = member
        self._num_online = num_online
        self._num_replayed = num_replayed
        # One request for episode streams at a time, so that no rows are skipped or repeated.
        self._num_in_flight = num_in_flight if stream_set is None else min(1, num_in_flight)
        self._deadline_s = deadline_s
        self._in_flight: deque[list[_Asked | None]] = deque()
        self._batches_per_draw = batches_per_draw
        self._arrival_deadline = ArrivalDeadline(replay, member, deadline_s)

    @property
    def next_sequence(self) -> int:
        """The number of the next request for episode streams."""
        return self.num_asked + self._restart

    def restart_streams(self) -> None:
        """Restart every episode stream at an episode's first step with the next request.

        The request skips a sequence number, which makes the replay restart the streams. May be called from any thread.
        """
        self._restart = True

    def next(self, most: int = 1) -> list[Mix]:
        """Wait for the samples of the next batch, and of those drawn together with it.

        Args:
            most: number of batches wanted; no more are drawn at once, unless they are requested ahead of time.

        Raises:
            PortTimeoutError: nothing arrived within the deadline; the message says what was missing.
        """
        while True:
            mixes = self.poll(_STATS_INTERVAL_S, most)
            if mixes:
                return mixes

    def poll(self, timeout_s: float, most: int | None = None) -> list[Mix]:
        """Return the same as `next`, or [] if it has not come after `timeout_s`; the requests stay in flight.

        Args:
            timeout_s: seconds.
            most: see `next`; None: `batches_per_draw`.

        Raises:
            PortTimeoutError: nothing arrived within the deadline; the message says what was missing.
        """
        self._ask_ahead(max(1, self._num_in_flight), most)
        asked = self._in_flight[0]
        futures = [part.answer for part in asked if part is not None]
        waiting = False
        if not all(future.done() for future in futures):
            waiting = bool(wait_for(futures, timeout=timeout_s, return_when=FIRST_EXCEPTION).not_done)
        for part in asked:
            if part is None or not part.answer.done() or (error := part.answer.exception()) is None:
                continue
            if isinstance(error, PortAwayError):
                time.sleep(_PAUSE_S)  # the replay is being started anew
            elif not isinstance(error, PortTimeoutError):
                raise error
            self.waiting_for = str(error)
            part.answer = self._replay.sample(part.request)
            waiting = True
        if waiting:
            self._arrival_deadline.check(self.waiting_for)
            return []
        self._in_flight.popleft()
        self._arrival_deadline.reset()
        self.waiting_for = ""
        online, replayed = (None if part is None else part.answer.result() for part in asked)
        self._ask_ahead(self._num_in_flight, most)
        if self._batches_per_draw > 1 and online is None and replayed is not None:
            together = len(replayed.keys) // self._num_replayed
            # Interleaved, not in blocks: neighbours may come from the same shard or stratum of priorities.
            return [Mix(None, take_sample(replayed, slice(k, None, together)), replayed) for k in range(together)]
        return [Mix(online, replayed)]

    def close(self) -> None:
        """Cancel the requests in flight."""
        for pair in self._in_flight:
            for part in pair:
                if part is not None:
                    part.answer.cancel()
        self._in_flight.clear()

    def _ask_ahead(self, num_requests: int, most: int | None) -> None:
        while len(self._in_flight) < num_requests:
            if self.replays is not None and self.num_replays_due:
                self.num_replays_due -= 1
                self._in_flight.append([None, self._ask_replay(self.replays.num_items)])
                continue
            self.num_replays_due = self.replays.draw() if self.replays is not None else 0
            together = min(self._batches_per_draw, most or self._batches_per_draw)
            self._in_flight.append([self._ask_online(), self._ask_replay(self._num_replayed * together)])

    def _ask_online(self) -> _Asked | None:
        return self._ask(SampleRequest(self._member, self._num_online, "online", timeout_s=self._timeout_s))

    def _ask_replay(self, num_items: int) -> _Asked | None:
        if not num_items:
            return None
        num_from_log = None if self.log_share is None else self.log_share.num_of(num_items)
        if self._n_step:
            return self._ask(
                SampleRequest(
                    self._member,
                    num_items,
                    view="steps",
                    n_step=self._n_step,
                    discount=self.discount,
                    reward_clip=self._reward_clip,
                    num_from_log=num_from_log,
                    timeout_s=self._timeout_s,
                )
            )
        if self.stream_set is None:
            return self._ask(
                SampleRequest(
                    self._member, num_items, view=self._view, num_from_log=num_from_log, timeout_s=self._timeout_s
                )
            )
        sequence, self._restart = self.next_sequence, False
        self.num_asked = sequence + 1
        return self._ask(
            SampleRequest(
                self._member,
                num_items,
                view="streams",
                stream_set=self.stream_set,
                sequence=sequence,
                timeout_s=self._timeout_s,
            )
        )

    @property
    def _timeout_s(self) -> float:
        return min(self._deadline_s, _ASK_AGAIN_S)

    def _ask(self, request: SampleRequest) -> _Asked | None:
        return _Asked(request, self._replay.sample(request)) if request.num_items else None


class ArrivalDeadline:
    """Ends a wait when nothing has arrived in the replay for `deadline_s`; costs nothing while batches come.

    Args:
        replay: whose statistics are read.
        member: the member whose inserted steps count.
        deadline_s: seconds.
    """

    def __init__(self, replay: ReplayPort, member: int, deadline_s: float):
        self._replay = replay
        self._member = member
        self._deadline_s = deadline_s
        self._stats: Future[ReplayStats] | None = None
        self.reset()

    def reset(self) -> None:
        """End the current wait: a batch came."""
        self._since: float | None = None
        self._arrived = -1

    def check(self, waiting_for: str) -> None:
        """Raise `PortTimeoutError` if nothing has arrived for `deadline_s`; `waiting_for` joins its message."""
        now = time.monotonic()
        if self._since is None:
            self._since = self._read_at = now
        if self._stats is not None and self._stats.done():
            # If a shard does not answer, nothing has arrived in it.
            if not self._stats.cancelled() and self._stats.exception() is None:
                arrived = self._stats.result().members[self._member].inserted_steps
                if arrived != self._arrived and self._arrived >= 0:
                    self._since = now
                self._arrived = arrived
            self._stats = None
        if now - self._since > self._deadline_s:
            lacked = f": {waiting_for}" if waiting_for else ""
            raise PortTimeoutError(
                f"the learner waited for a batch while nothing arrived in the replay for {self._deadline_s:g} s{lacked}"
            )
        if self._stats is None and now - self._read_at >= min(_STATS_INTERVAL_S, self._deadline_s / 4):
            self._read_at = now
            self._stats = self._replay.stats()
