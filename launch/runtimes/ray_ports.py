"""Ports over Ray: calls to actors with Ray's failures turned into the ports' own, and the actors that answer them.

Messages of the replay travel inside calls and answers and stay out of Ray's object store (see
`launch.runtimes.ray_settings`); references to answers are dropped as soon as the answer is there.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from typing import Any

import launch.runtimes.ray_settings  # noqa: F401 - read by Ray when it is imported

# isort: split
import numpy as np
import ray
import ray.exceptions

from laser.futures import claim, fail, forward
from laser.ports import (
    ColumnWrites,
    InsertReceipt,
    Parameters,
    PortClosedError,
    PortError,
    PortTimeoutError,
    Sample,
    SampleRequest,
    WriteReceipt,
    wait,
)
from laser.replay_stats import ReplayStats
from laser.unroll import Unrolls
from launch.planning.needs import Needs
from launch.recording.process_usage import ProcessUsage

_ray: Any = ray  # its decorators have types that do not fit what they take

# How long a call is repeated whose answer was lost while the other side lives. All port calls may be repeated.
RETRY_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_STATE_DEADLINE_S = 600.0
_START_DEADLINE_S = 120.0
# A shard that lives answers this within milliseconds, whatever else it does.
_ANSWER_DEADLINE_S = 10.0
# Parameters above this are put into the store once, and everyone on a node maps the same memory.
_SMALL_VECTOR_BYTES = 64 * 1024
# Threads of a shard for calls that wait: an actor has an insert or two under way, a learner a few samples. Calls of who
# waits long must not stand in the way of the others'.
_LEAST_THREADS, _INSERTS_PER_ACTOR, _SAMPLES_PER_LEARNER = 32, 2, 8


class RayReplay:
    """A port to a shard in a process of its own; picklable. Any thread may call.

    Inserts are sent one after the other: Ray may deliver calls in another order than they were made, and the shard
    would take the earlier unrolls of a stream for repeated ones.

    Args:
        handle: of the actor that `serve_shard` made.
        index: the shard's number.
        pid: its process.
        node: Ray's id of the node it lives on.
    """

    def __init__(self, handle: Any, index: int, pid: int, node: str = ""):
        self.index = index
        self.pid = pid
        self.node = node
        self._handle = handle
        self._name = f"shard {index} of the replay (process {pid})"
        self._inserts = _InOrder()

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild without the calls in flight."""
        return RayReplay, (self._handle, self.index, self.pid, self.node)

    def answers(self, timeout_s: float) -> bool:
        """Return whether its process says something within the time."""
        try:
            wait(self._call(lambda: self._handle.place.remote()), timeout_s, self._name)
        except PortError:
            return False
        return True

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """See `ReplayPort.insert`."""
        return self._inserts.send(
            lambda: self._call(lambda: self._handle.insert.options(concurrency_group="insert").remote(unrolls))
        )

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """See `ReplayPort.sample`."""
        return self._call(lambda: self._handle.sample.options(concurrency_group="sample").remote(request))

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """See `ReplayPort.write`."""
        return self._call(lambda: self._handle.write.remote(writes))

    def stats(self) -> Future[ReplayStats]:
        """See `ReplayPort.stats`."""
        return self._call(lambda: self._handle.stats.remote())

    def client_state(self) -> dict[str, Any]:
        """Return nothing; see `ReplayPort.client_state`."""
        return {}

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Restore nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Return the shard's state."""
        answer = self._call(lambda: self._handle.state_dict.remote())
        state: dict[str, Any] = wait(answer, _STATE_DEADLINE_S, f"the state of {self._name}")
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        answer = self._call(lambda: self._handle.load_state_dict.remote(state))
        wait(answer, _STATE_DEADLINE_S, f"{self._name} to take its state")

    def _call(self, make: Callable[[], Any]) -> Future[Any]:
        return call_remote(make, self._name, RETRY_S)


class NearestShard:
    """A port to a living shard, on the node where it is used if there is one; picklable. One thread inserts.

    It is chosen at the first call. So an actor that is placed again on another node finds the shard there, and one
    whose shard has ended another.

    Args:
        shards: ports to all of them.
        number: spreads those who choose over shards that are equally near.
    """

    def __init__(self, shards: Sequence[RayReplay], number: int):
        self._shards = list(shards)
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild without the choice."""
        return NearestShard, (self._shards, self._number)

    @cached_property
    def chosen(self) -> RayReplay:
        """The shard."""
        here = ray.get_runtime_context().get_node_id()
        # Among nodes that are equally free actors are dealt in turn: those of one node have numbers that far apart.
        rank = self._number // len({shard.node for shard in self._shards})
        near = [shard for shard in self._shards if shard.node == here]
        far = [shard for shard in self._shards if shard.node != here]
        in_order = [*_rotated(near, rank), *_rotated(far, self._number)]
        # Where none answers, the first insert will say so.
        return next((shard for shard in in_order if shard.answers(_ANSWER_DEADLINE_S)), in_order[0])

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
        """Return nothing; see `ReplayPort.client_state`."""
        return {}

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Restore nothing."""


def _rotated(shards: list[RayReplay], by: int) -> list[RayReplay]:
    by %= max(1, len(shards))
    return shards[by:] + shards[:by]


class RayParameters:
    """A port to the parameter store in a process of its own; picklable. Any thread may call.

    A large vector is put into the object store once per publication; everyone on a node maps the same memory.
    """

    def __init__(self, handle: Any):
        self._handle = handle

    def publish(self, parameters: Parameters) -> Future[None]:
        """See `ParameterPort.publish`."""
        vector = parameters.vector
        content = vector if vector.nbytes <= _SMALL_VECTOR_BYTES else [ray.put(vector)]
        return self._call(lambda: self._handle.publish.remote(parameters.version, content))

    def newest(self, newer_than: int) -> Future[Parameters | None]:
        """See `ParameterPort.newest`."""
        answer: Future[Parameters | None] = Future()

        def told(asked: Future[Any]) -> None:
            if not claim(answer):
                return
            error = asked.exception()
            if error is not None:
                answer.set_exception(error)
                return
            newest = asked.result()
            if newest is None or isinstance(newest[1], np.ndarray):
                answer.set_result(None if newest is None else Parameters(*newest))
                return
            version, (reference,) = newest
            fetched = call_remote(lambda: reference, "the learner, which published the parameters,", 0.0)
            fetched.add_done_callback(lambda done: forward(answer, done, partial(Parameters, version)))

        self._call(lambda: self._handle.newest.remote(newer_than)).add_done_callback(told)
        return answer

    def _call(self, make: Callable[[], Any]) -> Future[Any]:
        return call_remote(make, "the parameter store", RETRY_S)


def serve_shards(
    factories: Sequence[Callable[[], Any]], options: Sequence[dict[str, Any]], needs: Needs
) -> list[RayReplay]:
    """Start a process per shard and return a port to each, once all answer.

    Args:
        factories: one per shard.
        options: Ray's, one per shard: where it goes.
        needs: of the run: how many actors insert, and how many learners sample.
    """
    groups = {
        "insert": max(_LEAST_THREADS, _INSERTS_PER_ACTOR * needs.num_actors),
        "sample": max(_LEAST_THREADS, _SAMPLES_PER_LEARNER * needs.num_learners),
    }
    handles = [
        _actor(_ShardHost, concurrency_groups=groups, **place).remote(factory)
        for factory, place in zip(factories, options, strict=True)
    ]
    answers = [
        call_remote(handle.place.remote, f"shard {index} of the replay", RETRY_S)
        for index, handle in enumerate(handles)
    ]
    places = [wait(answer, _START_DEADLINE_S, "the replay's shards to start") for answer in answers]
    return [RayReplay(handle, index, *place) for index, (handle, place) in enumerate(zip(handles, places, strict=True))]


def serve_parameters(factory: Callable[[], Any], options: dict[str, Any]) -> RayParameters:
    """Start a process for the parameter store and return a port to it."""
    return RayParameters(_actor(_ParameterHost, **options).remote(factory))


def call_remote(make: Callable[[], Any], who: str, retry_s: float) -> Future[Any]:
    """Make a Ray call and return its result's future, with Ray's failures turned into the port's.

    A failed call is unknown, not lost: it may have been applied. Only what may be applied twice is to be retried.

    Args:
        make: makes the call, returns Ray's reference.
        who: the other side, for messages.
        retry_s: how long to repeat it while the other side is only out of reach.
    """
    answer: Future[Any] = Future()

    def attempt(pause_s: float, given_up_at: float | None) -> None:
        def settle(done: Future[Any]) -> None:
            error = done.exception()
            # Since it was first out of reach: a call may wait for long before.
            until = given_up_at or time.monotonic() + retry_s
            out_of_reach = isinstance(error, ray.exceptions.ActorUnavailableError)
            if out_of_reach and time.monotonic() + pause_s <= until and not answer.cancelled():
                # Not from Ray's own thread, which must stay free.
                timer = threading.Timer(pause_s, attempt, (min(2 * pause_s, _LONGEST_PAUSE_S), until))
                timer.daemon = True
                timer.start()
            else:
                forward(answer, done, explain=lambda failure: port_error(failure, who))

        try:
            reference = make()
        except ray.exceptions.RayError as error:  # known to be dead already
            fail(answer, port_error(error, who))
            return
        reference.future().add_done_callback(settle)

    attempt(_FIRST_PAUSE_S, None)
    return answer


def port_error(error: BaseException, who: str) -> BaseException:
    """Return the port's error for a failure of Ray, or what the other side raised."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return error.cause if isinstance(error.cause, BaseException) else PortError(_line(error))
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return PortClosedError(f"{who} cannot be reached: {_line(error)}")
    if isinstance(error, ray.exceptions.ActorUnschedulableError):
        return PortClosedError(f"{who} did not start: its node has ended")
    if isinstance(error, ray.exceptions.RayActorError | ray.exceptions.OwnerDiedError):
        return PortClosedError(f"{who} {_ending(error)}")
    if isinstance(error, ray.exceptions.GetTimeoutError):
        return PortTimeoutError(f"{who} did not answer: {_line(error)}")
    return PortError(f"{who}: {_line(error)}") if isinstance(error, ray.exceptions.RayError) else error


class _InOrder:
    """Makes calls one after the other, each when the one before is settled. Any thread may send."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], Future[Any]], Future[Any]]] = deque()
        self._busy = False

    def send(self, make: Callable[[], Future[Any]]) -> Future[Any]:
        """Return the future of a call that is made when it is its turn."""
        answer: Future[Any] = Future()
        with self._lock:
            self._waiting.append((make, answer))
            if self._busy:
                return answer
            self._busy = True
        self._next()
        return answer

    def _next(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                make, answer = self._waiting.popleft()
            if claim(answer):
                break
        make().add_done_callback(lambda done: self._settled(answer, done))

    def _settled(self, answer: Future[Any], done: Future[Any]) -> None:
        self._next()
        forward(answer, done)


class _ShardHost:
    """A shard in an actor. Threads wait for it, which costs 15 to 20 % less per call than an asynchronous actor."""

    def __init__(self, factory: Callable[[], Any]):
        self._shard = factory()
        self._usage = ProcessUsage(with_children=False)

    def place(self) -> tuple[int, str]:
        return os.getpid(), ray.get_runtime_context().get_node_id()

    def insert(self, unrolls: Unrolls) -> InsertReceipt:
        receipt: InsertReceipt = self._shard.insert(unrolls).result()
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

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._shard.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._shard.load_state_dict(state)


class _ParameterHost:
    """The parameter store in an actor; of a large vector it holds Ray's reference in place of the vector."""

    def __init__(self, factory: Callable[[], Any]):
        self._store = factory()

    def publish(self, version: int, content: Any) -> None:
        self._store.publish(Parameters(version, content)).result()

    def newest(self, newer_than: int) -> tuple[int, Any] | None:
        newest: Parameters | None = self._store.newest(newer_than).result()
        return None if newest is None else (newest.version, newest.vector)


def _actor(host: type, **options: Any) -> Any:
    # Never retried by Ray, which would apply calls twice without saying so.
    return _ray.remote(**{"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, **options})(host)


def _ending(error: BaseException) -> str:
    text = str(error).strip()
    if "creation task" in text:  # its constructor raised, which says more than that it is gone
        return f"did not start: {text.splitlines()[-1].strip()}"
    return "has ended: killed, crashed or out of memory"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
