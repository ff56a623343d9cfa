"""The client of a sharded replay: routes inserts, splits samples, makes probabilities global."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from laser.futures import combine, fail, failed, forward
from laser.messages import concatenate_samples, take_unrolls
from laser.ports import (
    ColumnWrites,
    InsertReceipt,
    PortAwayError,
    PortClosedError,
    PortError,
    PortTimeoutError,
    ReplayPort,
    Sample,
    SampleRequest,
    WriteReceipt,
)
from laser.replay_stats import ReplayStats, add_stats
from laser.unroll import Unrolls
from replay_server.client.deadlines import Deadlines
from replay_server.client.log_split import LogSplit
from replay_server.client.online_pool import OnlinePool, take_in_order
from replay_server.client.stream_placement import place_streams, requests_by_home

T = TypeVar("T")

_VIEWS = ("unrolls", "steps", "streams", "sequences")
# Most draws between two reads of all shards' sizes; the first reads follow after 1, 2, 4, ... draws, since not all
# shards fill at once. Each sample includes the sizes of the shards it came from, so these reads only find shards that
# were empty or unreachable. A count and not a time, so that the same calls give the same draws.
_DRAWS_PER_READ = 256
# Seconds without an answer after which a shard counts as gone. It is long, since the shard may be saving its content,
# and shorter than the deadline of calls for statistics. Until a silent shard answers, the second number holds.
_SILENT_S, _SILENT_AGAIN_S = 100.0, 1.0
# While all shards are empty, their sizes are read again after this long.
_READ_AGAIN_S = 0.02


class ShardedReplay:
    """K shards as one `laser.ports.ReplayPort`. Any thread may call any method; nothing blocks.

    All unrolls of an actor go to shard `actor % K`, so the unrolls of one environment never cross shards. A replay
    sample is split over the shards multinomially by their last known sizes. An item's probability is P(shard), as used
    for the split, times its probability in the shard, so it is exact even if the sizes are a little old. A shard that
    fails is left out of samples until it answers again. If a shard has ended or is silent for long, the sample is drawn
    from the others. With one shard, calls go straight through. If a request says how many items come from a log, these
    and the others are split separately (see `LogSplit`).

    Each episode stream is placed on one shard, the same number on all; a stream that has to move begins a new episode.

    Args:
        shards: the shards' ports; `shards[k]` writes k into keys.
        seed: of the generator that splits samples.
        in_order: take queued fresh unrolls from one shard after the other instead of as they arrive: the same calls
            then give the same batches. For lockstep, where nothing arrives while a learner waits.
    """

    def __init__(self, shards: Sequence[ReplayPort], *, seed: int = 0, in_order: bool = False):
        self._shards = list(shards)
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._lock = threading.Lock()
        self._in_order = in_order
        self._sizes = {view: np.zeros(len(shards), np.int64) for view in _VIEWS}
        self._log_sizes = {view: np.zeros(len(shards), np.int64) for view in _VIEWS}  # the part of a log
        self._homes: dict[tuple[int, int], np.ndarray] = {}  # shard of each stream, by member and set
        self._num_draws = 0
        self._reading: Future[None] | None = None  # of the sizes
        self._all_gone = False  # at the last read of them
        self._away: set[int] = set()  # shards that are being started anew
        self._pools: dict[int, OnlinePool] = {}
        self._closed = False
        self._deadlines = Deadlines()
        self._silent: set[int] = set()

    # -- the port ------------------------------------------------------------------------------------------------------

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """Store unrolls; see `ReplayPort.insert`. A message of several actors is split, and may be stored in part."""
        targets = unrolls.headers["actor"] % len(self._shards)
        used = np.unique(targets).tolist()
        if len(used) == 1:
            shard: ReplayPort = self._shards[used[0]]
            return shard.insert(unrolls)
        parts = [self._shards[k].insert(take_unrolls(unrolls, np.flatnonzero(targets == k))) for k in used]
        return combine(parts, _merge_receipts)

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """Draw items; see `ReplayPort.sample`."""
        if len(self._shards) == 1:
            return self._shards[0].sample(request)
        if request.keys is not None:
            return self._read(request, request.keys)
        with self._lock:
            if self._closed:
                return failed(PortClosedError("the replay client is closed"))
            if request.table == "online" and not self._in_order:
                if request.member not in self._pools:
                    self._pools[request.member] = OnlinePool(self._shards, request.member)
                pool = self._pools[request.member]
            elif request.table == "replay":
                # A shard without a finished episode gets its streams as soon as one finishes.
                late = (self._sizes["streams"] == 0) & (self._sizes["unrolls"] > 0)
                reads_sizes = _is_time_to_look(self._num_draws) or (request.view == "streams" and bool(late.any()))
                self._num_draws += 1
        if request.table == "online":
            return take_in_order(self._shards, request) if self._in_order else pool.sample(request)
        whole: Future[Sample] = Future()
        self._start_draw(whole, request, time.monotonic() + request.timeout_s, reads_sizes)
        return whole

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """Write column values, each on the shard that its key names."""
        owners = writes.keys["shard"]
        if len(owners) and (owners.min() < 0 or owners.max() >= len(self._shards)):
            return failed(PortError(f"keys name shards outside [0, {len(self._shards)})"))
        if len(self._shards) == 1:
            return self._shards[0].write(writes)
        parts = []
        # Writes that concern all stored steps also go to shards without keys in this write.
        is_for_all = writes.redraw or writes.far_bounds or (writes.sweep is not None and writes.sweep.reach == "all")
        for k in range(len(self._shards)) if is_for_all else np.unique(owners).tolist():
            chosen = np.flatnonzero(owners == k)
            values = {name: array[chosen] for name, array in writes.values.items()}
            final_values = {name: array[chosen] for name, array in writes.final_values.items()}
            part = replace(writes, keys=writes.keys[chosen], values=values, final_values=final_values)
            parts.append(self._in_time(k, self._shards[k].write(part)))
        return combine(parts, _merge_writes)

    def stats(self) -> Future[ReplayStats]:
        """Return counters and sizes summed over all living shards, and those of each shard."""

        def merge(parts: list[ReplayStats | None]) -> ReplayStats:
            if all(part is None for part in parts):
                raise self._none_answers()
            with self._lock:
                pooled = sum(pool.num_pooled for pool in self._pools.values())
            return add_stats(parts, pooled)

        return combine(self._ask_stats(), merge)

    def close(self) -> None:
        """Fail samples that wait for fresh unrolls, and drop pooled ones. The shards stay open."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()
        self._deadlines.close()

    def _ask_stats(self) -> list[Future[ReplayStats | None]]:
        asked = [self._in_time(k, shard.stats()) for k, shard in enumerate(self._shards)]
        for k, answer in enumerate(asked):
            answer.add_done_callback(partial(self._note_away, k))
        return [_or_none(answer) for answer in asked]

    def _note_away(self, shard: int, done: Future[ReplayStats]) -> None:
        is_away = not done.cancelled() and isinstance(done.exception(), PortAwayError)
        with self._lock:
            (self._away.add if is_away else self._away.discard)(shard)

    def _none_answers(self) -> PortClosedError:
        with self._lock:
            return (PortAwayError if self._away else PortClosedError)("no shard of the replay answers")

    def _in_time(self, shard: int, answer: Future[T], patience_s: float = 0.0) -> Future[T]:
        """Return a future of a shard's answer, which fails if the shard stays silent long after `patience_s`."""

        def answered(_: Future[T]) -> None:
            with self._lock:
                self._silent.discard(shard)

        def settled(_: Future[T]) -> None:
            if not answer.done():
                with self._lock:
                    self._silent.add(shard)

        with self._lock:
            silent_s = _SILENT_AGAIN_S if shard in self._silent else _SILENT_S
        answer.add_done_callback(answered)
        if answer.done():
            return answer
        timed = self._deadlines.within(patience_s + silent_s, answer, f"shard {shard} of the replay")
        timed.add_done_callback(settled)
        return timed

    def _read(self, request: SampleRequest, keys: np.ndarray) -> Future[Sample]:
        owners = keys["shard"]
        if owners.min() < 0 or owners.max() >= len(self._shards):
            return failed(PortError(f"keys name shards outside [0, {len(self._shards)})"))
        parts = []
        for k in np.unique(owners).tolist():
            mine = keys[owners == k]
            # Steps of a shard that is gone are left out, like removed steps.
            part = self._shards[k].sample(replace(request, num_items=len(mine), keys=mine))
            parts.append(_or_none(self._in_time(k, part, request.timeout_s)))

        def merge(answers: list[Sample | None]) -> Sample:
            samples = [sample for sample in answers if sample is not None]
            if not samples:
                raise PortClosedError("no shard that holds these steps answers")
            probabilities = np.concatenate([sample.probabilities for sample in samples])
            return concatenate_samples(samples, probabilities, sum(sample.num_stored for sample in samples))

        return combine(parts, merge)

    # -- drawing from the replay ---------------------------------------------------------------------------------------

    def _start_draw(self, whole: Future[Sample], request: SampleRequest, deadline: float, reads_sizes: bool) -> None:
        arrived = self._read_sizes() if reads_sizes else None
        with self._lock:
            sizes = self._sizes_for(request)
        # A shard that is out of reach answers late: the others are not to wait for it.
        if sizes.any() and (arrived is None or not self._in_order):
            self._split(whole, request, deadline, sizes)
            return
        (arrived or self._read_sizes()).add_done_callback(lambda _: self._sizes_arrived(whole, request, deadline))

    def _read_sizes(self) -> Future[None]:
        """Return the future of a read of all shards' sizes: the one under way, or else a new one."""
        with self._lock:
            if self._reading is not None and not self._reading.done():
                return self._reading
        # Shards that cannot be reached count as empty.
        reading = combine(self._ask_stats(), self._update_sizes)
        with self._lock:
            self._reading = reading
        return reading

    def _update_sizes(self, stats: list[ReplayStats | None]) -> None:
        with self._lock:
            self._all_gone = all(item is None for item in stats)
            for view, sizes in self._sizes.items():
                sizes[:] = [0 if item is None else item.num_stored.of(view) for item in stats]
                self._log_sizes[view][:] = [0 if item is None else item.num_stored_log.of(view) for item in stats]

    def _sizes_arrived(self, whole: Future[Sample], request: SampleRequest, deadline: float) -> None:
        with self._lock:
            sizes, closed, all_gone = self._sizes_for(request), self._closed, self._all_gone
        if whole.cancelled():
            return
        if sizes.any():
            self._split(whole, request, deadline, sizes)
        elif all_gone:
            fail(whole, self._none_answers())
        elif closed or time.monotonic() >= deadline:
            what = f"sample of {request.num_items} {request.view}: no shard has anything stored"
            message = f"waited {request.timeout_s:g} s for {what}"
            fail(whole, PortClosedError(what) if closed else PortTimeoutError(message))
        else:
            timer = threading.Timer(_READ_AGAIN_S, self._start_draw, (whole, request, deadline, True))
            timer.daemon = True
            timer.start()

    def _sizes_for(self, request: SampleRequest) -> np.ndarray:
        sizes = self._sizes[request.view]
        if request.view == "streams" and not sizes.any():
            sizes = self._sizes["unrolls"]  # requests wait on these shards for an episode to finish
        return sizes.copy()

    def _split(self, whole: Future[Sample], request: SampleRequest, deadline: float, sizes: np.ndarray) -> None:
        left_s = max(deadline - time.monotonic(), 0.0)
        requests: list[SampleRequest | None]
        split: LogSplit | None = None
        with self._lock:
            if request.view == "streams":
                key = (request.member, request.stream_set)
                self._homes[key] = place_streams(self._homes.get(key), request.num_items, sizes > 0)
                requests = requests_by_home(request, self._homes[key], len(sizes), left_s)
                shares = np.array([each.num_items if each else 0 for each in requests]) / request.num_items
            elif request.num_from_log is not None:
                split = LogSplit(request.num_items, request.num_from_log, sizes, self._log_sizes[request.view])
                requests = split.requests(request, left_s, self._rng)
            else:
                shares = sizes / sizes.sum()
                counts = self._rng.multinomial(request.num_items, shares).tolist()
                requests = [replace(request, num_items=num, timeout_s=left_s) if num else None for num in counts]
        used = [k for k, each in enumerate(requests) if each is not None]
        asked = []
        for k, each in enumerate(requests):
            if each is None:
                continue
            part = self._in_time(k, self._shards[k].sample(each), each.timeout_s)
            part.add_done_callback(partial(self._update_size, k, request))
            asked.append(part)

        def merge(parts: list[Sample]) -> Sample:
            answers = list(zip(used, parts, strict=True))
            if split is None:
                probabilities = np.concatenate([part.probabilities * shares[k] for k, part in answers])
            else:
                probabilities = split.probabilities(answers)
            # Shards in this sample report their size with it; the others count with their last known size.
            num_stored = int(sizes.sum()) + sum(
                part.num_stored - int(sizes[k]) for k, part in zip(used, parts, strict=True)
            )
            sample = concatenate_samples(parts, probabilities, num_stored)
            if split is not None:
                sample = replace(sample, num_stored_log=split.num_of_log(answers))
            # The other shards are assumed to grow as fast as the item's own.
            return sample if sample.ages is None else replace(sample, ages=sample.ages * len(self._shards))

        combine(asked, merge).add_done_callback(partial(self._drawn, whole, request, deadline))

    def _drawn(self, whole: Future[Sample], request: SampleRequest, deadline: float, done: Future[Sample]) -> None:
        with self._lock:
            closed = self._closed
        if isinstance(done.exception(), PortClosedError) and not closed:
            # A shard has ended: draw from the others, or after the deadline fail with an error that permits a retry.
            if time.monotonic() < deadline:
                self._start_draw(whole, request, deadline, reads_sizes=self._in_order)
            else:
                message = f"waited {request.timeout_s:g} s for {request.num_items} {request.view}: {done.exception()}"
                fail(whole, PortTimeoutError(message))
        else:
            forward(whole, done)

    def _update_size(self, shard: int, request: SampleRequest, part: Future[Sample]) -> None:
        view = request.view
        with self._lock:
            if part.cancelled() or part.exception() is not None:
                self._sizes[view][shard] = self._log_sizes[view][shard] = 0
                if view == "streams":
                    self._sizes["unrolls"][shard] = 0
            else:
                self._sizes[view][shard] = part.result().num_stored
                if request.num_from_log is not None:  # other samples do not say
                    self._log_sizes[view][shard] = part.result().num_stored_log

    # -- saving --------------------------------------------------------------------------------------------------------

    def client_state(self) -> dict[str, Any]:
        """Return the state that the next split depends on, as JSON values, without pooled unrolls (see `in_order`)."""
        with self._lock:
            return {
                "rng": self._rng.bit_generator.state,
                "sizes": {view: array.tolist() for view, array in self._sizes.items()},
                "log_sizes": {view: array.tolist() for view, array in self._log_sizes.items()},
                "num_draws": self._num_draws,
                "homes": [[list(key), homes.tolist()] for key, homes in self._homes.items()],
            }

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Restore a state from `client_state`; a state of another number of shards is ignored."""
        with self._lock:
            if not state or len(state["sizes"]["unrolls"]) != len(self._shards):  # a single shard saves nothing
                return
            self._homes = {tuple(key): np.array(homes) for key, homes in state["homes"]}
            self._rng.bit_generator.state = state["rng"]
            for view, sizes in self._sizes.items():
                sizes[:] = state["sizes"].get(view, 0)  # states of before know no sequences
                self._log_sizes[view][:] = state.get("log_sizes", {}).get(view, 0)  # and no logs
            self._num_draws = state["num_draws"]


def _is_time_to_look(num_draws: int) -> bool:
    if num_draws < _DRAWS_PER_READ:
        return num_draws & (num_draws + 1) == 0
    return num_draws % _DRAWS_PER_READ == 0


def _merge_receipts(parts: list[InsertReceipt]) -> InsertReceipt:
    rejected: Counter[str] = Counter()
    for part in parts:
        rejected.update(part.rejected)
    return InsertReceipt(
        sum(part.num_inserted for part in parts), sum(part.num_duplicates for part in parts), dict(rejected)
    )


def _merge_writes(parts: list[WriteReceipt]) -> WriteReceipt:
    return WriteReceipt(sum(part.num_written for part in parts), sum(part.num_stale for part in parts))


def _or_none(future: Future[T]) -> Future[T | None]:
    """Return a future of the result, or of None if `future` fails."""
    answer: Future[T | None] = Future()

    def arrived(done: Future[T]) -> None:
        answer.set_result(None if done.exception() is not None else done.result())

    future.add_done_callback(arrived)
    return answer
