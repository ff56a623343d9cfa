"""The port to a replay shard over Ray, and the Ray actor that serves it.

Messages of the replay travel inside calls and results and stay out of Ray's object store (see
`launch.runtimes.ray_settings`).
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import Any

import launch.runtimes.ray_settings  # noqa: F401 - Ray reads these settings at its import

# isort: split
import ray

from laser.futures import forward
from laser.ports import (
    ColumnWrites,
    InsertReceipt,
    PortAwayError,
    PortClosedError,
    PortError,
    Sample,
    SampleRequest,
    WriteReceipt,
    wait,
)
from laser.replay_stats import ReplayStats
from laser.unroll import Unrolls
from launch.planning.needs import Needs
from launch.recording.process_usage import ProcessUsage
from launch.runtimes.ray_calls import (
    LONGEST_PAUSE_S,
    RETRY_S,
    InOrder,
    call_remote,
    patience_s,
    remote_actor,
    restarts_if,
    was_started_anew,
)
from replay_server.saving.contents import Contents
from replay_server.saving.spreading import Refill

_STATE_DEADLINE_S = 600.0
_START_DEADLINE_S = 120.0
# A living shard answers such a call within milliseconds, however busy it is.
_ANSWER_DEADLINE_S = 10.0
# A shard that died is started anew and filled from a checkpoint.
_FIND_DEADLINE_S = 60.0
# It may also be saving its content.
_SILENT_DEADLINE_S = 60.0
# Threads of a shard for calls that wait: an actor has one or two pending inserts, a learner a few pending samples.
# Calls that wait for long must not block the calls of others.
_LEAST_THREADS, _INSERTS_PER_ACTOR, _SAMPLES_PER_LEARNER = 32, 2, 8


class RayReplay:
    """A port to a shard in a process of its own; picklable. Any thread may call.

    Inserts are sent one after the other: Ray may deliver calls in another order than they were made, and the shard
    would take earlier unrolls below its high-water mark for repeated ones.

    Args:
        handle: handle of the Ray actor, from `serve_shards`.
        index: the shard's number.
        pid: id of the shard's process.
        node: Ray's id of the shard's node.
        life: number of earlier processes of the shard. A later one takes no inserts through this port: their streams
            began at an earlier one.
        outlasts_death: whether another process follows one that dies. Samples then fail as soon as the shard is out of
            reach, so that learners draw from others meanwhile; else a sample that was lost on the way is drawn again.
    """

    def __init__(self, handle: Any, index: int, pid: int, node: str = "", life: int = 0, outlasts_death: bool = False):
        self.index = index
        self.pid = pid
        self.node = node
        self.life = life
        self.outlasts_death = outlasts_death
        self._handle = handle
        self._inserts = InOrder()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the port, without its pending calls."""
        return RayReplay, (self._handle, self.index, self.pid, self.node, self.life, self.outlasts_death)

    @property
    def _name(self) -> str:
        return f"shard {self.index} of the replay (process {self.pid})"

    def answers(self, timeout_s: float) -> bool:
        """Return whether the shard's process answers within the time; new streams then begin in its present life."""
        try:
            self.pid, self.node, self.life = wait(self.presence(), timeout_s, self._name)
        except PortError:
            return False
        return True

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """See `ReplayPort.insert`."""
        return self._inserts.send(
            lambda: self._call(
                lambda: self._handle.insert.options(concurrency_group="insert").remote(unrolls, self.life)
            )
        )

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """See `ReplayPort.sample`."""
        return call_remote(
            lambda: self._handle.sample.options(concurrency_group="sample").remote(request),
            self._name,
            retry_s=patience_s(self.outlasts_death),
        )

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """See `ReplayPort.write`."""
        return self._call(lambda: self._handle.write.remote(writes))

    def stats(self) -> Future[ReplayStats]:
        """See `ReplayPort.stats`."""
        return self._call(lambda: self._handle.stats.remote())

    def client_state(self) -> dict[str, Any]:
        """Return an empty state; see `ReplayPort.client_state`."""
        return {}

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Do nothing: the client has no state."""

    def partial_state(self, known: Sequence[tuple[int, int]], life: int) -> tuple[dict[str, Any], Contents]:
        """Return the shard's state, and the contents not known yet."""
        answer = self._call(lambda: self._handle.partial_state.remote(known, life))
        state: tuple[dict[str, Any], Contents] = wait(answer, _STATE_DEADLINE_S, f"the state of {self._name}")
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the shard's state from `state_dict`."""
        answer = self._call(lambda: self._handle.load_state_dict.remote(state))
        wait(answer, _STATE_DEADLINE_S, f"{self._name} to take its state")

    def refill(self, parts: Refill) -> None:
        """Take over unrolls that another number of shards held."""
        answer = self._call(lambda: self._handle.refill.remote(parts))
        wait(answer, _STATE_DEADLINE_S, f"{self._name} to take its unrolls")

    def presence(self) -> Future[tuple[int, str, int]]:
        """Return the shard's process, node and life; fails with `PortAwayError` while it waits for `begin_again`."""
        return self._call(lambda: self._handle.place.remote())

    def begin_again(self, saved: dict[str, Any] | None, last_seen: ReplayStats | None) -> Future[None]:
        """Let a shard that was started anew serve calls; see `ShardPort.begin_again`."""
        life = self.life + 1
        begun: Future[None] = Future()

        def know(place: tuple[int, str, int]) -> None:
            self.pid, self.node, self.life = place

        answer = self._call(lambda: self._handle.begin_again.remote(saved, last_seen, life))
        answer.add_done_callback(lambda done: forward(begun, done, know))
        return begun

    def kill(self) -> None:
        """End the process at once."""
        ray.kill(self._handle)

    def accounts(self) -> dict[str, Any]:
        """Return the shard's accounts without its content."""
        accounts: dict[str, Any] = self._ask("accounts")
        return accounts

    def load_accounts(self, streams: Sequence[dict[str, Any]], ledgers: Sequence[dict[str, Any]]) -> None:
        """Continue the accounts of an earlier start."""
        self._ask("load_accounts", streams, ledgers)

    def end_inserts(self, member: int) -> None:
        """Fail inserts of a member that wait for room, now and from now on."""
        self._ask("end_inserts", member)

    def end_samples(self, member: int) -> None:
        """Fail a member's pending samples, whose learner has died."""
        self._ask("end_samples", member)

    def _ask(self, method: str, *arguments: Any) -> Any:
        answer = self._call(lambda: getattr(self._handle, method).remote(*arguments))
        return wait(answer, _SILENT_DEADLINE_S, f"{method} of {self._name}")

    def _call(self, make: Callable[[], Any]) -> Future[Any]:
        return call_remote(make, self._name, RETRY_S)


class NearestShard:
    """A port to a living shard, on the caller's node if there is one; picklable. One thread inserts.

    The shard is chosen at the first call. So an actor that is placed again on another node finds the shard there, and
    an actor whose shard has ended finds another one.

    Args:
        shards: ports to all shards.
        number: the actor's number, which spreads actors over equally near shards.
    """

    def __init__(self, shards: Sequence[RayReplay], number: int):
        self._shards = list(shards)
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the port, without its choice of a shard."""
        return NearestShard, (self._shards, self._number)

    @cached_property
    def chosen(self) -> RayReplay:
        """The chosen shard."""
        here = ray.get_runtime_context().get_node_id()
        # Equally free nodes get actors in turn, so the numbers of a node's actors are as far apart as there are nodes.
        rank = self._number // len({shard.node for shard in self._shards})
        near = [shard for shard in self._shards if shard.node == here]
        far = [shard for shard in self._shards if shard.node != here]
        in_order = [*_rotated(near, rank), *_rotated(far, self._number)]
        given_up_at = time.monotonic() + _FIND_DEADLINE_S
        while time.monotonic() < given_up_at:
            found = next((shard for shard in in_order if shard.answers(_ANSWER_DEADLINE_S)), None)
            if found is not None:
                return found
            time.sleep(LONGEST_PAUSE_S)
        return in_order[0]  # no shard answers; the first insert reports it

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """See `ReplayPort.insert`."""
        return self.chosen.insert(unrolls)

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """See `ReplayPort.sample`."""
        return self.chosen.sample(request)

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """See `ReplayPort.write`."""
        return self.chosen.write(writes)

    def stats(self) -> Future[ReplayStats]:
        """See `ReplayPort.stats`."""
        return self.chosen.stats()

    def client_state(self) -> dict[str, Any]:
        """Return an empty state; see `ReplayPort.client_state`."""
        return {}

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Do nothing: the client has no state."""


def serve_shards(
    factories: Sequence[Callable[[], Any]],
    options: Sequence[dict[str, Any]],
    needs: Needs,
    outlasts_death: bool = False,
) -> list[RayReplay]:
    """Start a process for each shard, wait until all answer, and return a port to each.

    Args:
        factories: factory of each shard.
        options: Ray's options for each shard, which place it.
        needs: the needs of the run: the number of actors that insert and of learners that sample.
        outlasts_death: Ray starts another process if one dies.
    """
    groups = {
        "insert": max(_LEAST_THREADS, _INSERTS_PER_ACTOR * needs.num_actors),
        "sample": max(_LEAST_THREADS, _SAMPLES_PER_LEARNER * needs.num_learners),
    }
    handles = [
        remote_actor(_ShardHost, concurrency_groups=groups, **place, **restarts_if(outlasts_death)).remote(factory)
        for factory, place in zip(factories, options, strict=True)
    ]
    answers = [
        call_remote(handle.place.remote, f"shard {index} of the replay", RETRY_S)
        for index, handle in enumerate(handles)
    ]
    places = [wait(answer, _START_DEADLINE_S, "the replay's shards to start") for answer in answers]
    return [
        RayReplay(handle, index, pid, node, life, outlasts_death)
        for index, (handle, (pid, node, life)) in enumerate(zip(handles, places, strict=True))
    ]


def _rotated(shards: list[RayReplay], by: int) -> list[RayReplay]:
    by %= max(1, len(shards))
    return shards[by:] + shards[:by]


class _ShardHost:
    """A Ray actor with a shard. Its calls wait in threads, which costs 15 to 20 % less per call than an async actor.

    A process that was started anew refuses all calls until `begin_again`.
    """

    def __init__(self, factory: Callable[[], Any]):
        self._made = factory()
        self._usage = ProcessUsage(with_children=False)
        self._is_away = was_started_anew()
        self._life = 0

    @property
    def _shard(self) -> Any:
        if self._is_away:
            raise PortAwayError(f"shard {self._made.shard} of the replay lost its contents and is being started anew")
        return self._made

    def place(self) -> tuple[int, str, int]:
        assert self._shard is not None
        return os.getpid(), ray.get_runtime_context().get_node_id(), self._life

    def begin_again(
        self, saved: dict[str, Any] | None, last_seen: ReplayStats | None, life: int
    ) -> tuple[int, str, int]:
        self._made.begin_again(saved, last_seen, life)
        self._is_away, self._life = False, life
        return self.place()

    def insert(self, unrolls: Unrolls, life: int) -> InsertReceipt:
        shard = self._shard
        if life != self._life:
            raise PortClosedError(f"shard {shard.shard} of the replay was started anew, this stream goes on elsewhere")
        receipt: InsertReceipt = shard.insert(unrolls).result()
        return receipt

    def sample(self, request: SampleRequest) -> Sample:
        sample: Sample = self._shard.sample(request).result()
        return sample

    def write(self, writes: ColumnWrites) -> WriteReceipt:
        receipt: WriteReceipt = self._shard.write(writes).result()
        return receipt

    def stats(self) -> ReplayStats:
        stats: ReplayStats = self._shard.stats().result()
        return dataclasses.replace(stats, process=self._usage.newest())

    def partial_state(self, known: Sequence[tuple[int, int]], life: int) -> tuple[dict[str, Any], Contents]:
        state: tuple[dict[str, Any], Contents] = self._shard.partial_state(known, life)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._shard.load_state_dict(state)

    def refill(self, parts: Refill) -> None:
        self._shard.refill(parts)

    def accounts(self) -> dict[str, Any]:
        accounts: dict[str, Any] = self._shard.accounts()
        return accounts

    def load_accounts(self, streams: Sequence[dict[str, Any]], ledgers: Sequence[dict[str, Any]]) -> None:
        self._shard.load_accounts(streams, ledgers)

    def end_inserts(self, member: int) -> None:
        self._shard.end_inserts(member)

    def end_samples(self, member: int) -> None:
        self._shard.end_samples(member)
