"""The online pool: combines one member's fresh unrolls from several shards into whole batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import numpy as np

from laser.futures import Settlement, claim, done, failed, settle
from laser.messages import concatenate_samples, take_sample
from laser.ports import PortClosedError, PortError, PortTimeoutError, ReplayPort, Sample, SampleRequest, wait


def take_in_order(shards: Sequence[ReplayPort], request: SampleRequest) -> Future[Sample]:
    """Return a batch of the unrolls queued now: all of the first shard, then of the next, until there are enough.

    Nothing is kept between batches. The call fails at once if too few unrolls are queued.
    """
    try:
        stats = [wait(shard.stats(), request.timeout_s, "a shard's statistics") for shard in shards]
        queued = [each.members[request.member].online_queued for each in stats]
        least = 1 if request.at_most else request.num_items
        if sum(queued) < least:
            raise PortTimeoutError(
                f"sample of {request.num_items} fresh unrolls for member {request.member}: {sum(queued)} queued"
            )
        parts, num_left = [], request.num_items
        for shard, num_queued in zip(shards, queued, strict=True):
            if num := min(num_left, num_queued):
                part = shard.sample(replace(request, num_items=num, at_most=False))
                parts.append(wait(part, request.timeout_s, "fresh unrolls that are queued"))
                num_left -= num
    except PortError as error:
        return failed(error)
    probabilities = np.concatenate([part.probabilities for part in parts])
    return done(concatenate_samples(parts, probabilities, sum(queued)))


class OnlinePool:
    """Pools fresh unrolls, with one outstanding request per shard while a call waits. Any thread may call.

    Each shard returns the unrolls that it has. Batches are made of them in order of arrival. The rest stays for the
    next batch: at most one request's items per shard. Outstanding requests time out at the earliest deadline of the
    waiting calls, which makes the pool check its deadlines.

    Args:
        shards: ports of all shards.
        member: whose online queues are read.
    """

    def __init__(self, shards: Sequence[ReplayPort], member: int):
        self._shards = list(shards)
        self._member = member
        self._lock = threading.Lock()
        self._parts: deque[Sample] = deque()
        self._waiting: deque[tuple[Future[Sample], SampleRequest, float]] = deque()
        self._outstanding: set[int] = set()
        self._gone: set[int] = set()  # the last call failed
        self._closed = False
        self.num_pooled = 0

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """Return a future of `num_items` fresh unrolls, or of 1 to `num_items` with `at_most`."""
        future: Future[Sample] = Future()
        with self._lock:
            self._waiting.append((future, request, time.monotonic() + request.timeout_s))
        self._advance()
        return future

    def close(self) -> None:
        """Fail the waiting calls and drop the pooled unrolls."""
        with self._lock:
            self._closed = True
            self._parts.clear()
            self.num_pooled = 0
        self._advance()

    def _advance(self) -> None:
        with self._lock:
            settled = self._serve()
            ask = []
            if self._waiting and not self._closed:
                ask = [k for k in range(len(self._shards)) if k not in self._outstanding]
                self._outstanding.update(ask)
                _, request, _ = self._waiting[0]
                left_s = max(min(deadline for _, _, deadline in self._waiting) - time.monotonic(), 0.0)
        settle(settled)
        for k in ask:
            part = self._shards[k].sample(replace(request, at_most=True, timeout_s=left_s))
            part.add_done_callback(partial(self._arrived, k))

    def _serve(self) -> list[Settlement]:
        settled: list[Settlement] = []
        while self._waiting:
            future, request, deadline = self._waiting[0]
            least = 1 if request.at_most else request.num_items
            if future.cancelled():
                self._waiting.popleft()
            elif self._closed:
                self._waiting.popleft()
                if claim(future):
                    settled.append((future, None, PortClosedError("the replay client closed")))
            elif self.num_pooled >= least:
                self._waiting.popleft()
                if claim(future):
                    settled.append((future, self._take(min(request.num_items, self.num_pooled)), None))
            elif time.monotonic() >= deadline:
                self._waiting.popleft()
                if claim(future):
                    message = (
                        f"waited {request.timeout_s:g} s for {request.num_items} fresh unrolls of member "
                        f"{self._member}: {self.num_pooled} came from {len(self._shards)} shards"
                    )
                    settled.append((future, None, PortTimeoutError(message)))
            else:
                break
        return settled

    def _take(self, num_items: int) -> Sample:
        taken: list[Sample] = []
        self.num_pooled -= num_items
        while num_items:
            part = self._parts.popleft()
            if len(part.keys) > num_items:
                self._parts.appendleft(take_sample(part, slice(num_items, None)))
                part = take_sample(part, slice(num_items))
            num_items -= len(part.keys)
            taken.append(part)
        probabilities = np.concatenate([part.probabilities for part in taken])
        return concatenate_samples(taken, probabilities, sum(part.num_stored for part in taken))

    def _arrived(self, shard: int, part: Future[Sample]) -> None:
        error = part.exception()
        # A failed shard stays marked as outstanding until this call has been handled, or it would be asked again at
        # once, in an endless loop.
        gone = error is not None and not isinstance(error, PortTimeoutError)
        settled: list[Settlement] = []
        with self._lock:
            if error is None and not self._closed:
                self._parts.append(part.result())
                self.num_pooled += len(part.result().keys)
            if gone:
                self._gone.add(shard)
            else:
                self._gone.discard(shard)
                self._outstanding.discard(shard)
            if len(self._gone) == len(self._shards):
                settled = [(future, None, error) for future, _, _ in self._waiting]
                self._waiting.clear()
        settle((future, None, error) for future, _, error in settled if claim(future))
        self._advance()
        if gone:
            with self._lock:
                self._outstanding.discard(shard)
