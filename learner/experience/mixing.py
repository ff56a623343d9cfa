"""Mixing: which fresh and which replayed unrolls make up a batch, and requests kept in flight for them."""

from __future__ import annotations

import math
import time
from collections import deque
from concurrent.futures import FIRST_EXCEPTION, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Any

import numpy as np

from laser.messages import take_sample
from laser.ports import PortTimeoutError, ReplayPort, Sample, SampleRequest
from laser.replay_stats import ReplayStats

# A request that finds nothing comes back after this long, says what it lacked, and is sent again.
_ASK_AGAIN_S = 10.0
# While a batch is waited for, the replay is asked this often whether anything arrives.
_LOOK_INTERVAL_S = 1.0


@dataclass(frozen=True)
class Mix:
    """The samples of one batch; `online` columns come first.

    Args:
        online: fresh unrolls, or None when the batch has none.
        replayed: replayed unrolls, or None.
        drawn: where the items of several batches were drawn together, all of them: batch k of n has items k, k + n, ...
    """

    online: Sample | None
    replayed: Sample | None
    drawn: Sample | None = None

    @property
    def num_online(self) -> int:
        """How many columns are fresh."""
        return 0 if self.online is None else len(self.online.unrolls)

    @property
    def parts(self) -> list[Sample]:
        """The samples that are there."""
        return [part for part in (self.online, self.replayed) if part is not None]


class PoissonReplays:
    """How many batches from the replay alone follow each batch: Poisson numbers from a generator of its own.

    Args:
        mean: of these numbers.
        num_items: replayed unrolls of such a batch.
        seed: of the generator.
    """

    def __init__(self, mean: float, num_items: int, seed: int):
        self.mean = mean
        self.num_items = num_items
        self._generator = np.random.default_rng([seed, 1])

    def draw(self) -> int:
        """Return how many follow the next batch."""
        return int(self._generator.poisson(self.mean))

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs, as JSON values."""
        return dict(self._generator.bit_generator.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._generator.bit_generator.state = state


@dataclass
class _Asked:
    request: SampleRequest
    answer: Future[Sample]


class Mixer:
    """Draws batches of exactly `num_online` fresh and `num_replayed` replayed unrolls, and such as only replay.

    A batch may be waited for as long as the member's own unrolls keep arriving in the replay: with slow environments
    it takes its time to fill. Used from one thread.

    Args:
        replay: where experience comes from.
        member: whose fresh experience.
        num_online: fresh unrolls per batch.
        num_replayed: replayed unrolls per batch.
        num_in_flight: batches asked for ahead of need; 0 asks only when one is wanted (repeatable order).
        deadline_s: how long to wait for a batch while nothing arrives.
        stream_set: replayed columns are episode streams, of the set with this number; None: whole unrolls.
        n_step: replayed columns are windows of so many steps, folded to one row; 0: whole unrolls.
        discount: gamma that windows are folded with; may be changed.
        reward_clip: each reward of a window is clipped to +- this before.
        replays: how many batches from the replay alone follow each batch; None: none ever.
        batches_per_draw: so many batches of windows are asked for at once.
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
    ):
        self.waiting_for = ""
        self.replays = replays
        self.num_replays_due = 0  # of what has been asked for so far
        self.stream_set = stream_set
        self.num_asked = 0  # of streams: the number of the next request, if they need not begin anew
        self._restart = False
        self.discount = discount
        self._n_step = n_step
        self._reward_clip = reward_clip
        self._replay = replay
        self._member = member
        self._num_online = num_online
        self._num_replayed = num_replayed
        # A stream's next request goes out when the one before has been answered: rows neither skipped nor repeated.
        self._num_in_flight = num_in_flight if stream_set is None else min(1, num_in_flight)
        self._deadline_s = deadline_s
        self._in_flight: deque[list[_Asked | None]] = deque()
        self._batches_per_draw = batches_per_draw
        self._patience = ArrivalDeadline(replay, member, deadline_s)

    @property
    def next_sequence(self) -> int:
        """The number of the next request for streams."""
        return self.num_asked + self._restart

    def restart_streams(self) -> None:
        """Let every stream begin an episode anew with the next request: a number left out tells the replay so.

        May be called from any thread.
        """
        self._restart = True

    def next(self, most: int = 1) -> list[Mix]:
        """Wait for the samples of the next batch, and of those drawn together with it.

        Args:
            most: so many batches are wanted; no more are drawn at once, unless they are asked for ahead of need.

        Raises:
            PortTimeoutError: nothing arrived within the deadline; says what was missing.
        """
        while True:
            mixes = self.poll(_LOOK_INTERVAL_S, most)
            if mixes:
                return mixes

    def poll(self, timeout_s: float, most: int | None = None) -> list[Mix]:
        """Return what `next` does, or nothing when it is not there after `timeout_s`; nothing is lost.

        Args:
            timeout_s: seconds.
            most: see `next`; None: as many as are drawn together.

        Raises:
            PortTimeoutError: nothing arrived within the deadline; says what was missing.
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
            if not isinstance(error, PortTimeoutError):
                raise error
            self.waiting_for = str(error)
            part.answer = self._replay.sample(part.request)
            waiting = True
        if waiting:
            self._patience.check(self.waiting_for)
            return []
        self._in_flight.popleft()
        self._patience.reset()
        self.waiting_for = ""
        online, replayed = (None if part is None else part.answer.result() for part in asked)
        self._ask_ahead(self._num_in_flight, most)
        if self._batches_per_draw > 1 and online is None and replayed is not None:
            together = len(replayed.keys) // self._num_replayed
            # Not stretch by stretch: neighbours may come from the same shard or stratum of priorities.
            return [Mix(None, take_sample(replayed, slice(k, None, together)), replayed) for k in range(together)]
        return [Mix(online, replayed)]

    def close(self) -> None:
        """Forget what is in flight."""
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
        if self._n_step:
            return self._ask(
                SampleRequest(
                    self._member,
                    num_items,
                    view="steps",
                    n_step=self._n_step,
                    discount=self.discount,
                    reward_clip=self._reward_clip,
                    timeout_s=self._timeout_s,
                )
            )
        if self.stream_set is None:
            return self._ask(SampleRequest(self._member, num_items, timeout_s=self._timeout_s))
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
    """Ends a wait once nothing has arrived in the replay for the deadline; costs nothing while batches come."""

    def __init__(self, replay: ReplayPort, member: int, deadline_s: float):
        self._replay = replay
        self._member = member
        self._deadline_s = deadline_s
        self._stats: Future[ReplayStats] | None = None
        self.reset()

    def reset(self) -> None:
        """A batch came."""
        self._since: float | None = None
        self._arrived = -1

    def check(self, waiting_for: str) -> None:
        """Raise `PortTimeoutError` if nothing has arrived for the deadline."""
        now = time.monotonic()
        if self._since is None:
            self._since = self._looked_at = now
        if self._stats is not None and self._stats.done():
            # A shard that does not answer is one in which nothing arrives.
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
        if self._stats is None and now - self._looked_at >= min(_LOOK_INTERVAL_S, self._deadline_s / 4):
            self._looked_at = now
            self._stats = self._replay.stats()
