"""Mixing: which fresh and which replayed unrolls make up a batch, and requests kept in flight for them."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Literal

from laser.ports import PortTimeoutError, ReplayPort, Sample, SampleRequest


@dataclass(frozen=True)
class Mix:
    """The samples of one batch; `online` columns come first.

    Args:
        online: fresh unrolls, or None when the batch has none.
        replayed: replayed unrolls, or None.
    """

    online: Sample | None
    replayed: Sample | None

    @property
    def parts(self) -> list[Sample]:
        """The samples that are there."""
        return [part for part in (self.online, self.replayed) if part is not None]


class Mixer:
    """Draws batches of exactly `num_online` fresh and `num_replayed` replayed unrolls.

    Used from one thread.

    Args:
        replay: where experience comes from.
        member: whose fresh experience.
        num_online: fresh unrolls per batch.
        num_replayed: replayed unrolls per batch.
        num_in_flight: batches asked for ahead of need; 0 asks only when one is wanted (repeatable order).
        deadline_s: how long to wait for a batch.
    """

    def __init__(
        self,
        replay: ReplayPort,
        member: int,
        num_online: int,
        num_replayed: int,
        num_in_flight: int,
        deadline_s: float,
    ):
        self._replay = replay
        self._member = member
        self._num_online = num_online
        self._num_replayed = num_replayed
        self._num_in_flight = num_in_flight
        self._deadline_s = deadline_s
        self._in_flight: deque[tuple[Future[Sample] | None, Future[Sample] | None]] = deque()

    def next(self) -> Mix:
        """Wait for the next batch's samples.

        Raises:
            PortTimeoutError: nothing came within the deadline; says what was missing.
        """
        mix = self.poll(self._deadline_s)
        if mix is None:
            raise PortTimeoutError(f"waited {self._deadline_s:g} s for experience from the replay")
        return mix

    def poll(self, timeout_s: float) -> Mix | None:
        """Return the next batch's samples, or None when they are not there after `timeout_s`; nothing is lost."""
        while len(self._in_flight) < max(1, self._num_in_flight):
            self._in_flight.append((self._ask("online", self._num_online), self._ask("replay", self._num_replayed)))
        online, replayed = self._in_flight[0]
        asked = [future for future in (online, replayed) if future is not None]
        if wait_for(asked, timeout=timeout_s).not_done:
            return None
        self._in_flight.popleft()
        return Mix(None if online is None else online.result(), None if replayed is None else replayed.result())

    def close(self) -> None:
        """Forget what is in flight."""
        for pair in self._in_flight:
            for future in pair:
                if future is not None:
                    future.cancel()
        self._in_flight.clear()

    def _ask(self, table: Literal["online", "replay"], num_items: int) -> Future[Sample] | None:
        if num_items == 0:
            return None
        return self._replay.sample(SampleRequest(self._member, num_items, table, timeout_s=self._deadline_s))
