"""A shard of the replay: serves the replay port from a store, and keeps calls pending until they can be served."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import numpy as np

from laser.futures import Settlement, done, failed, settle
from laser.ports import (
    ColumnWrites,
    InsertReceipt,
    PortClosedError,
    PortError,
    PortTimeoutError,
    Sample,
    SampleRequest,
    WriteReceipt,
)
from laser.replay_stats import ItemCounts, ReplayStats
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.saving.contents import Contents
from replay_server.saving.spreading import Refill
from replay_server.serving.checks import find_bad_request, find_bad_unrolls
from replay_server.serving.drawing import Drawing
from replay_server.serving.high_water_marks import DUPLICATE, FRESH, OLD_INCARNATION, HighWaterMarks
from replay_server.serving.ledger import Ledger
from replay_server.serving.pending_calls import PendingCall, PendingInsert, PendingSample
from replay_server.store.store import Store

T = TypeVar("T")


class InsertsEndedError(PortError):
    """An insert found no room and no learner will make any, since the member's training has ended."""


C = TypeVar("C", bound=PendingCall)


class Shard:
    """One shard; implements `laser.ports.ReplayPort`.

    Any thread may call any method. One lock guards everything, and no call blocks: a call that cannot be served now
    waits in a list and is tried again whenever something changes. Inserts of one member are served in order, and so are
    samples of one member and table. A daemon thread fails calls whose deadline has passed, even if no other call
    comes; it starts with the first pending call, and `close` ends it.

    All draws use one generator: the same calls in the same order give the same samples. `state_dict` includes the
    generator but no pending calls, so save a shard only when no calls are pending.

    Args:
        spec: the layout of one unroll.
        config: of the whole replay; the shard takes its share of capacities and of `min_steps`.
        members: settings of all members; unrolls of other members are rejected.
        shard: the shard's number in keys.
        seed: of the generator.
        insert_timeout_s: seconds an insert may wait.

    Raises:
        ValueError: an unknown sampler or remover, or a member's `min_steps` beyond the capacity.
    """

    def __init__(
        self,
        spec: UnrollSpec,
        config: ReplayConfig,
        members: Sequence[MemberSettings],
        *,
        shard: int = 0,
        seed: int = 0,
        insert_timeout_s: float = 60.0,
    ):
        self.spec = spec
        self.shard = shard
        for settings in members:
            if settings.rate.min_steps > config.capacity_steps:
                raise ValueError(
                    f"min_steps must be at most capacity_steps ({config.capacity_steps}) or nothing is ever drawn, got "
                    f"{settings.rate.min_steps}; raise capacity_steps or lower min_steps"
                )
        self._store = Store(spec, config, members)
        self._members = self._store.members
        self._streams = HighWaterMarks()
        self._ledger = Ledger()
        self._rng = np.random.Generator(np.random.PCG64([seed, shard]))
        self._answers = Drawing(self._store, shard, self._rng)
        self._insert_timeout_s = insert_timeout_s
        self._inserts: list[PendingInsert] = []
        self._samples: list[PendingSample] = []
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None
        self._pumped_at = -math.inf
        self._watcher_wakes_at = math.inf  # without being notified
        self._closed = False
        self._life = 0
        self._ended: set[int] = set()  # members whose inserts wait no more

    # -- the port ------------------------------------------------------------------------------------------------------

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """Store unrolls; see `ReplayPort.insert`.

        An unroll with bad contents is rejected and counted by reason; the good unrolls of its message are stored. An
        unroll that arrives after a later one of its environment counts as a duplicate (see `HighWaterMarks`). Unrolls
        of a log, whose actor's number is below 0, are not fresh: they wait for nobody and enter no online queue.
        """
        if unrolls.headers.dtype != HEADER_DTYPE:
            # Without headers there are no ids to account for: an error in the calling code, not in its data.
            return failed(PortError(f"headers must have dtype HEADER_DTYPE, got {unrolls.headers.dtype}"))
        bad = find_bad_unrolls(self.spec, unrolls, self._members)
        call = PendingInsert(unrolls, bad, self._insert_timeout_s)
        settled: list[Settlement] = []
        with self._changed:
            if self._closed:
                return failed(PortClosedError(f"shard {self.shard} is closed"))
            self._ledger.received += len(unrolls)
            self._inserts.append(call)
            self._pump(settled)
        settle(settled)
        return call.future

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """Draw items; see `ReplayPort.sample`."""
        wrong = find_bad_request(self.spec, request, self._members)
        if wrong:
            return failed(PortError(wrong))
        call = PendingSample(request)
        settled: list[Settlement] = []
        with self._changed:
            if self._closed:
                return failed(PortClosedError(f"shard {self.shard} is closed"))
            self._members[request.member].renew_lease()
            self._samples.append(call)
            self._pump(settled)
        settle(settled)
        return call.future

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """Write column values; rows of reused pages are dropped and counted."""
        try:
            with self._changed:
                if self._closed:
                    raise PortClosedError(f"shard {self.shard} is closed")
                if writes.member not in self._members:
                    raise PortError(f"member must be one of {sorted(self._members)}, got {writes.member}")
                self._members[writes.member].renew_lease()
                receipt = self._store.write(writes)
                if writes.redraw:
                    self._members[writes.member].redraw(self._rng)
                self._ledger.stale_rows += receipt.num_stale
        except PortError as error:
            return failed(error)
        return done(receipt)

    def stats(self) -> Future[ReplayStats]:
        """Return counters and sizes."""
        with self._changed:
            if self._closed:
                return failed(PortClosedError(f"shard {self.shard} is closed"))
            return done(self._stats())

    def add_member(self, settings: MemberSettings) -> None:
        """Register one more member; a member that is known with the same settings keeps all its state.

        Its columns are allocated now. Its online queue gets no additional pages: queued unrolls that have left the
        replay reduce the number of unrolls that can be stored.

        Args:
            settings: over all shards, as at construction.

        Raises:
            ValueError: the member is known with other settings.
        """
        with self._changed:
            self._store.add_member(settings)

    def end_inserts(self, member: int) -> None:
        """Fail inserts of a member that wait for room, now and from now on: its learner takes no more unrolls.

        They are counted as failed under the reason `stopped`. Inserts that find room are still served.
        """
        settled: list[Settlement] = []
        with self._changed:
            self._ended.add(member)
            self._pump(settled)
        settle(settled)

    def end_samples(self, member: int) -> None:
        """Fail a member's pending samples: the learner that asked has died, and fresh unrolls would go to nobody."""
        with self._changed:
            ended = [call for call in self._samples if call.request.member == member]
            self._samples = [call for call in self._samples if call.request.member != member]
        error = PortClosedError(f"the learner of member {member} has ended")
        settle([(call.future, None, error) for call in ended if call.claim()])

    def client_state(self) -> dict[str, Any]:
        """Return {}: a shard has no state on the client side; see `ReplayPort.client_state`."""
        return {}

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Restore nothing."""

    def close(self) -> None:
        """Fail pending calls with `PortClosedError`, empty the queues, end the thread. May be called twice."""
        with self._changed:
            calls: list[PendingCall] = [*self._inserts, *self._samples]
            for call in self._inserts:
                self._count_failed(call, "closed")
            self._inserts, self._samples = [], []
            for member in self._members.values():
                self._store.release(member.drop_queue("closed"))
            self._closed = True
            self._changed.notify_all()
            watcher = self._watcher
        settle(
            [
                (call.future, None, PortClosedError(f"shard {self.shard} closed during {call.what}"))
                for call in calls
                if call.claim()
            ]
        )
        if watcher is not None and watcher is not threading.current_thread():
            watcher.join()

    # -- serving -------------------------------------------------------------------------------------------------------

    def _pump(self, settled: list[Settlement]) -> None:
        self._pumped_at = time.monotonic()
        # An insert can unblock a sample and the reverse; each round answers at least one call, so this ends.
        num_waiting = -1
        while num_waiting != len(self._inserts) + len(self._samples):
            num_waiting = len(self._inserts) + len(self._samples)
            self._inserts = self._serve(self._inserts, self._try_insert, settled)
            self._samples = self._serve(self._samples, self._try_sample, settled)
        if num_waiting:
            self._watch()

    def _serve(
        self, calls: list[C], attempt: Callable[[C], InsertReceipt | Sample | None], settled: list[Settlement]
    ) -> list[C]:
        still: list[C] = []
        blocked: set[Hashable] = set()
        for call in calls:
            if call.lanes & blocked and not call.future.cancelled():
                still.append(call)
                continue
            try:
                result = attempt(call)
            except CancelledError:
                self._count_failed(call, "cancelled")
            except Exception as error:  # noqa: BLE001 - it belongs to the pending call, not to the calling thread
                self._count_failed(call, "stopped" if isinstance(error, InsertsEndedError) else "refused")
                if call.claim():
                    settled.append((call.future, None, error))
            else:
                if result is None:
                    still.append(call)
                    blocked |= call.lanes
                else:
                    settled.append((call.future, result, None))
        return still

    def _count_failed(self, call: PendingCall, reason: str) -> None:
        if isinstance(call, PendingInsert):
            self._ledger.failed[reason] += len(call.unrolls)
            self._streams.arrived_in_vain(call.unrolls.headers)

    def _num_waiting(self) -> int:
        return sum(len(call.unrolls) for call in self._inserts)

    def _try_insert(self, call: PendingInsert) -> InsertReceipt | None:
        unrolls, store = call.unrolls, self._store
        from_log = bool((unrolls.headers["actor"] < 0).all())
        plan = self._streams.plan(unrolls.headers)
        fresh = plan.verdicts == FRESH
        keep = np.flatnonzero(fresh & call.good)
        steps_of: dict[int, int] = {}
        unread: dict[int, int] = {}
        if len(keep):
            of_member, steps = unrolls.headers["member"][keep], unrolls.fields["valid"][keep].sum(axis=1)
            num_blocks = store.blocks_needed(unrolls, keep)
            wrong = store.never_fits(len(keep), num_blocks)
            lacks = None
            for number in np.unique(of_member).tolist() if len(call.lanes) > 1 else [int(of_member[0])]:
                mine, member = of_member == number, self._members[number]
                num_unrolls, steps_of[number] = int(mine.sum()), int(steps[mine].sum())
                if from_log:
                    continue
                wrong = wrong or member.never_takes(num_unrolls, steps_of[number])
                held_up = member.queue_lacks(num_unrolls, self._num_wanted(number), self._warming_up(number))
                held_up = held_up or member.limiter.insert_lacks(steps_of[number])
                if held_up and self._is_away(number):
                    unread[number] = num_unrolls
                else:
                    lacks = lacks or held_up
            if wrong:
                raise PortError(wrong)
            if not lacks and not store.make_room(len(keep), num_blocks):
                away = [number for number in self._members if self._is_away(number)]
                for number in away:
                    store.release(self._members[number].drop_queue("no_reader"))
                if not away or not store.make_room(len(keep), num_blocks):
                    lacks = "no room: all stored unrolls wait in online queues"
                    self._check_that_room_comes()
            if lacks:
                call.lacks = lacks
                if call.members <= self._ended:
                    raise InsertsEndedError(f"the training of member {min(call.members)} has ended: {lacks}")
                if not call.future.cancelled():
                    return None
        if not call.claim():
            raise CancelledError
        for number, num_unrolls in unread.items():
            member = self._members[number]
            if capacity := member.settings.online_capacity:
                store.release(member.drop_queue("no_reader", num_left=capacity - num_unrolls))
            member.limiter.forgiven_steps += steps_of[number]
        ended = self._streams.commit(plan)
        if len(keep):
            kept = keep.tolist()
            keys, sequences = [plan.keys[i] for i in kept], [plan.sequences[i] for i in kept]
            store.insert(unrolls, keep, keys, sequences, queues=not from_log)
        for key in ended:
            store.index.close_stream(key)
        for number, num_steps in steps_of.items():
            self._members[number].limiter.inserted(num_steps, from_log)
        rejected = {reason: int((mask & fresh).sum()) for reason, mask in call.bad.items()}
        rejected["old_incarnation"] = int((plan.verdicts == OLD_INCARNATION).sum())
        rejected = {reason: num for reason, num in rejected.items() if num}
        receipt = InsertReceipt(len(keep), int((plan.verdicts == DUPLICATE).sum()), rejected)
        self._ledger.inserted += receipt.num_inserted
        self._ledger.duplicates += receipt.num_duplicates
        self._ledger.rejected.update(rejected)
        self._ledger.lost += plan.num_lost
        return receipt

    def _check_that_room_comes(self) -> None:
        """Raise `PortError` if all queued unrolls wait for learners that wait for more of them."""
        waiting = {number: member.queue for number, member in self._members.items() if member.queue}
        if waiting and all(self._warming_up(number) and math.isinf(self._lease_end(number)) for number in waiting):
            why, key = self._store.why_full()
            raise PortError(
                f"no room: {sum(map(len, waiting.values()))} unrolls {why} and wait for the learner, which takes none "
                f"yet ({self._stored_ever()} env steps are stored); raise {key}, or lower replay.min-steps"
            )

    def _stored_ever(self) -> int:
        return sum(member.limiter.inserted_steps for member in self._members.values())

    def _num_wanted(self, member: int) -> int:
        requests = [call.request for call in self._samples if not call.future.cancelled()]
        waiting = [each.num_items for each in requests if each.table == "online" and each.member == member]
        return max(waiting, default=0)

    def _is_away(self, member: int) -> bool:
        return self._lease_end(member) <= time.monotonic()

    def _lease_end(self, member: int) -> float:
        asking = any(call.request.member == member for call in self._samples if not call.future.cancelled())
        return math.inf if asking else self._members[member].lease_ends_at

    def _warming_up(self, member: int) -> bool:
        settings = self._members[member].settings
        if self._stored_ever() < settings.rate.min_steps:
            return True
        return settings.walks_streams and not self._store.index.num_streamable

    def _try_sample(self, call: PendingSample) -> Sample | None:
        request = call.request
        repeated = self._answers.repeated(request)
        if repeated is None and (lacks := self._answers.lacks(request, self._stored_ever())):
            call.lacks = lacks
            if not call.future.cancelled():
                return None
        if not call.claim():
            raise CancelledError
        if repeated is not None:
            return repeated
        if request.table != "online" and not request.is_look:
            self._ledger.sampled += request.num_items
        return self._answers.answer(request)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._watcher is None and not self._closed:
            watcher = threading.Thread(target=self._watch_deadlines, name=f"shard-{self.shard}", daemon=True)
            watcher.start()
            self._watcher = watcher  # only now: one that the system refuses to start cannot be joined
        # Calls come and go far more often than deadlines pass: the thread is woken only for an earlier one.
        if self._wakes_at() < self._watcher_wakes_at:
            self._changed.notify_all()

    def _wakes_at(self) -> float:
        """Return when the next deadline passes, or the next lease ends that may unblock an insert."""
        times = [call.deadline for call in [*self._inserts, *self._samples]]
        held_up = {member for call in self._inserts for member in call.members if member in self._members}
        times += [end for end in map(self._lease_end, sorted(held_up)) if end > self._pumped_at]
        return min(times, default=math.inf)

    def _watch_deadlines(self) -> None:
        while True:
            settled: list[Settlement] = []
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                calls: list[PendingCall] = [*self._inserts, *self._samples]
                late = [call for call in calls if call.deadline <= now]
                wakes_at = self._wakes_at()
                if wakes_at > now:
                    self._watcher_wakes_at = wakes_at
                    self._changed.wait(None if math.isinf(wakes_at) else wakes_at - now)
                    continue
                self._inserts = [call for call in self._inserts if call.deadline > now]
                self._samples = [call for call in self._samples if call.deadline > now]
                for call in late:
                    self._count_failed(call, "timed_out")
                    if call.claim():
                        message = f"waited {call.timeout_s:g} s for {call.what}: {call.lacks}"
                        settled.append((call.future, None, PortTimeoutError(message)))
                self._pump(settled)  # calls behind those that expired may go now
            settle(settled)

    # -- statistics and saving -----------------------------------------------------------------------------------------

    def _stats(self) -> ReplayStats:
        store, index = self._store, self._store.index
        self._ledger.removed = store.num_removed
        waiting = self._num_waiting()
        imbalances = self._ledger.imbalances(waiting, store.pages.num_used)
        imbalances["online"] = sum(member.imbalance for member in self._members.values())
        return ReplayStats(
            self._ledger.counts(),
            imbalances,
            dict(self._streams.arrived),
            store.pages.num_used,
            index.num_steps,
            len(index.episodes),
            ItemCounts(
                len(index.live_pages) if index.num_steps else 0,
                index.num_steps,
                index.num_streamable,
                index.starts.total if index.starts is not None else 0,
            ),
            {"alive": store.streams.num_streams, **store.streams.counts},
            store.sizes.capacity_pages * self.spec.unroll_length,
            store.arena.num_used_bytes if store.arena else 0,
            store.sizes.arena_bytes,
            store.num_bytes,
            len(self._inserts),
            waiting,
            len(self._samples),
            {number: member.stats() for number, member in self._members.items()},
            self._life,
            num_stored_log=ItemCounts(
                index.num_of_log("unrolls"), index.num_of_log("steps"), 0, index.num_of_log("sequences")
            ),
        )

    def check_valid(self) -> None:
        """Assert every invariant and both ledgers by recounting, O(everything); for tests."""
        with self._changed:
            self._store.check_valid()
            assert not any(self._stats().imbalances.values())

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state except pending calls, as nested dicts of arrays and JSON values."""
        with self._changed:
            self._ledger.removed = self._store.num_removed
            return {
                "made_for": self._store.fingerprint(),
                "store": self._store.state_dict(),
                "streams": self._streams.state_dict(),
                "ledger": self._ledger.saved(self._num_waiting()).state_dict(),
                "rng": self._rng.bit_generator.state,
            }

    def partial_state(self, known: Sequence[tuple[int, int]], life: int) -> tuple[dict[str, Any], Contents]:
        """Return the state without contents, as nested dicts, and the contents that are not known yet.

        Args:
            known: ranges of places in the order of insertion, whose unrolls have been saved.
            life: the life of the shard that saved them; another life knows nothing.
        """
        with self._changed:
            self._ledger.removed = self._store.num_removed
            state = {
                "made_for": self._store.fingerprint(),
                "store": self._store.state_dict(with_contents=False),
                "streams": self._streams.state_dict(),
                "ledger": self._ledger.saved(self._num_waiting()).state_dict(),
                "rng": self._rng.bit_generator.state,
                "life": self._life,
            }
            return state, self._store.contents(known if life == self._life else ())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`, into a shard built with the same arguments.

        A state without contents, from `partial_state`, has them as `contents`, in the order of its used pages.

        Raises:
            ValueError: the state is of a shard for other unrolls, members or capacities; nothing is changed.
        """
        ours = self._store.fingerprint()
        differing = [name for name, value in ours.items() if state["made_for"].get(name, value) != value]
        if differing:
            name = differing[0]
            raise ValueError(
                f"the saved replay was made for {name} {state['made_for'].get(name)}, this one has {ours[name]}"
            )
        with self._changed:
            if "contents" in state:
                self._store.load_contents(state["contents"], state["store"])
            else:
                self._store.load_state_dict(state["store"])
            self._streams.load_state_dict(state["streams"])
            self._ledger.load_state_dict(state["ledger"])
            self._store.num_removed = self._ledger.removed
            self._rng.bit_generator.state = state["rng"]

    def refill(self, parts: Refill) -> None:
        """Take over unrolls that another number of shards held; call it while the shard is empty.

        Raises:
            ValueError: they are unrolls of another layout, or their members have other columns; nothing is changed.
        """
        ours = self._store.fingerprint()
        for name in ("fields", "images", "columns by member"):
            if parts.made_for.get(name) != ours[name]:
                raise ValueError(f"the saved replay was made for {name} {parts.made_for.get(name)}, not {ours[name]}")
        with self._changed:
            self._store.refill(parts.contents, parts.columns)
            for member, (inserted_steps, sampled_steps) in parts.steps.items():
                self._members[member].limiter.continue_from(inserted_steps, sampled_steps)

    def accounts(self) -> dict[str, Any]:
        """Return the ledger and the high-water marks alone, for a checkpoint without the replay, as JSON values."""
        with self._changed:
            self._ledger.removed = self._store.num_removed
            ledger = self._ledger.saved(self._num_waiting(), self._store.pages.num_used)
            return {"streams": self._streams.state_dict(), "ledger": ledger.state_dict()}

    def load_accounts(self, streams: Sequence[dict[str, Any]], ledgers: Sequence[dict[str, Any]]) -> None:
        """Continue the accounts of shards that are gone, in a shard that is empty or holds what an older state held.

        Args:
            streams: the marks of all shards, as in `accounts`: an actor may find another shard than before.
            ledgers: the ledgers that this shard continues.
        """
        with self._changed:
            self._streams = HighWaterMarks()
            for state in streams:
                self._streams.merge(state)
            total = Ledger()
            for state in ledgers:
                ledger = Ledger()
                ledger.load_state_dict(state)
                total.add(ledger)
            older = self._ledger if self._ledger.received else total
            self._ledger = total.holding(self._store.pages.num_used, older)
            self._store.num_removed = self._ledger.removed

    def begin_again(self, saved: dict[str, Any] | None, last_seen: ReplayStats | None, life: int) -> None:
        """Take the place of a shard that died; a repeated call changes nothing. Call it while the shard is empty.

        Args:
            saved: a state of the dead shard, from `state_dict`; None: stay empty.
            last_seen: the last statistics of the dead shard; None: it was never seen.
            life: number of processes of this shard that have died.

        Raises:
            ValueError: the state was saved with other replay settings; the shard is still empty.
        """
        if self._life == life:
            return
        if saved is not None:
            self.load_state_dict(saved)
        with self._changed:
            self._life = life
            store = self._store
            # What was queued has been handed out since, or is lost with its learner's batches.
            for member in self._members.values():
                store.release(member.drop_queue("shard_died"))
            store.pages.outdate(life)
            if last_seen is None:
                return
            self._ledger.removed = store.num_removed
            self._ledger.succeed(
                last_seen.ledger, last_seen.waiting_unrolls, store.pages.num_used, is_restored=saved is not None
            )
            store.num_removed = self._ledger.removed
            for number, seen in last_seen.members.items():
                if number in self._members:
                    self._members[number].limiter.continue_from(seen.inserted_steps, seen.sampled_steps)
