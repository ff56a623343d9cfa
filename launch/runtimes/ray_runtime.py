"""The Ray runtime: every component in a process of its own, on this machine or on a cluster.

Only the files of `launch` whose names begin with `ray_` import Ray.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from launch.runtimes.ray_settings import TOO_LATE  # Ray reads these settings at its import

# isort: split
import ray

from actors.heartbeat import CLOSING, COMPILATION, CONSTRUCTION, ENVIRONMENT
from laser.ports import (
    NodeLostError,
    ParameterPort,
    PortClosedError,
    PortError,
    PortTimeoutError,
    ReplayPort,
    Report,
    ReportPort,
    wait,
)
from laser.waiting import waiting_for
from launch.errors import LaunchError
from launch.planning.needs import Needs
from launch.recording.process_usage import ProcessUsage
from launch.recording.tracker import Tracker
from launch.runtimes.hangs import hung_in_close
from launch.runtimes.host import CLOSE_DEADLINE_S, Host
from launch.runtimes.ray_calls import RETRY_S, call_remote, remote_actor
from launch.runtimes.ray_cluster import Cluster
from launch.runtimes.ray_loopback import OwnRay
from launch.runtimes.ray_metrics import RayMetrics
from launch.runtimes.ray_parameters import RayParameters, serve_parameters
from launch.runtimes.ray_replay import RayReplay, serve_shards
from launch.runtimes.ray_side_effects import kept_as_it_was
from launch.runtimes.runtime import NotPlacedError, ShardPort, StorePort, Worker, WorkerDiedError

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")

_START_DEADLINE_S = 120.0
# A process that answers no call for this long counts as hung: even compilation lets other threads run.
_ANSWER_DEADLINE_S = 120.0
_ANSWER_S = 1.0
# Ray may take so long to notice that a node is lost. Until then it accepts processes there and refuses them at once.
_PLACING_S = 60.0
_CHECK_S = 1.0
# The subject of an order to start or stop ticking, in place of a method's name.
_TICKING = ""


class RayRuntime:
    """Places all components as Ray actors (see `launch.runtimes.runtime.Runtime`).

    Without an address the runtime starts a Ray of its own, bound to loopback, even if another Ray runs on the machine,
    and ends it in `close`. With an address it uses that cluster and leaves it running.

    Args:
        address: HOST:PORT of a cluster's head; "" for a Ray of its own.
        needs: the needs of the run.

    Raises:
        LaunchError: this process is connected to Ray already, Ray did not start (`RuntimeFailedError`), or the cluster
            cannot be used.
        ConfigError: the nodes of the cluster do not fit together, or the run does not fit on them.
    """

    def __init__(self, address: str = "", needs: Needs | None = None) -> None:
        if ray.is_initialized():
            raise LaunchError("runtime", "this process is connected to Ray already", "call ray.shutdown() before")
        if TOO_LATE:
            raise LaunchError(
                "runtime",
                "ray was imported before LASER could set it to ask for a token and to stay on this machine",
                "import launch.runtimes.ray_settings before ray",
            )
        self._needs = needs or Needs()
        with kept_as_it_was():
            self._places = Cluster(address, self._needs) if address else OwnRay(self._needs)
        self._workers: list[RayWorker[Any]] = []
        self._checked_at = 0.0

    def check(self) -> None:
        """Look, at most once a second, whether Ray's own processes live."""
        if time.monotonic() - self._checked_at > _CHECK_S:
            self._checked_at = time.monotonic()
            self._places.check()

    @property
    def notes(self) -> Sequence[str]:
        """Warnings about the cluster for the user."""
        return self._places.notes

    def room(self) -> float:
        """Return the number of members for which the cluster has room; of its own Ray, any number."""
        return self._places.room()

    def crowded(self) -> list[str]:
        """Return the actors without a CPU of their own that could have one on another node by now."""
        return self._places.crowded()

    def shards(self, factories: list[Callable[[], Any]], outlasts_death: bool = False) -> list[ShardPort]:
        """Place each shard in a process of its own."""
        places = self._places.shards(len(factories))
        return cast(list[ShardPort], serve_shards(factories, places, self._needs, outlasts_death))

    def shard_for(self, actor: int, shards: Sequence[ShardPort]) -> ReplayPort:
        """Return a shard on the actor's own node if there is one."""
        return self._places.shard_for(actor, shards)

    def parameter_store(self, factory: Callable[[], Any], outlasts_death: bool = False) -> StorePort:
        """Place the parameter store."""
        return serve_parameters(factory, self._places.parameter_store(), outlasts_death)

    def reports(self, sink: ReportPort) -> ReportPort:
        """Return the sink: each worker's reports come with its status, and this process passes them to the sink."""
        return sink

    def trackers(self, run: str) -> Sequence[Tracker]:
        """Return the tracker of Prometheus metrics, which the node exports."""
        return [RayMetrics(run)]

    def worker(
        self, name: str, factory: Callable[[int], C], reports: ReportPort, when_called: bool = False
    ) -> RayWorker[C]:
        """Start a worker's process, at once or with the first call."""
        worker = RayWorker(name, factory, reports, functools.partial(self._places.worker, name), when_called)
        self._workers.append(worker)
        return worker

    def release(
        self, workers: Sequence[Worker[Any]], parameters: ParameterPort, shards: Sequence[ShardPort]
    ) -> list[str]:
        """End the processes of these components."""
        ending = [worker for worker in self._workers if worker in workers]
        complaints = _end(ending)
        for worker in ending:
            worker.kill()
            self._places.release(worker.name)
        cast(RayParameters, parameters).kill()
        for shard in shards:
            cast(RayReplay, shard).kill()
        self._workers = [worker for worker in self._workers if worker not in ending]
        return complaints

    def close(self) -> list[str]:
        """Let the workers that still answer close their components, and end all processes of this run."""
        complaints = _end(self._workers)
        self._workers = []
        self._places.close()
        return complaints


def _end(workers: Sequence[RayWorker[Any]]) -> list[str]:
    """Let workers close their components; return the complaints about environments that hang meanwhile."""
    closing = {worker.close(): worker.name for worker in workers if worker.has_begun}
    if not closing:
        return []
    with waiting_for("the workers to end"):
        answered, _ = ray.wait(list(closing), num_returns=len(closing), timeout=CLOSE_DEADLINE_S + _ANSWER_S)
    complaints = []
    for answer in answered:
        try:
            hangs = ray.get(answer)
        except ray.exceptions.RayError:
            continue  # a process that has died closes nothing
        if hangs:
            complaints.append(hung_in_close(closing[answer]))
    return complaints


class RayWorker(Generic[C]):
    """A component in a process of its own (see `launch.runtimes.runtime.Worker`).

    Call `failure` and `silent_s` from one thread only.

    Args:
        name: see `launch.runtimes.runtime.Runtime.worker`.
        factory: see `launch.runtimes.runtime.Runtime.worker`.
        reports: see `launch.runtimes.runtime.Runtime.worker`.
        options: returns Ray's options, which place the worker; called at each start.
        when_called: see `launch.runtimes.runtime.Runtime.worker`; until the first call nothing fails and nothing waits.
    """

    def __init__(
        self,
        name: str,
        factory: Callable[[int], C],
        reports: ReportPort,
        options: Callable[[], dict[str, Any]],
        when_called: bool = False,
    ):
        self.name = name
        self.incarnation = 0
        self.has_begun = False
        """Whether the process of the worker has been started."""
        self._factory = factory
        self._reports = reports
        self._options = options
        self._order_numbers = itertools.count()
        self._placed_at = time.monotonic()  # for the first time since a process of this worker last ran
        self._status = Status()
        if not when_called:
            self._begin()

    @property
    def pid(self) -> int:
        """Id of the worker's process; reading it waits for the process to start."""
        self._begin()
        answer = call_remote(self._handle.pid.remote, self.name, RETRY_S)
        return int(wait(answer, _START_DEADLINE_S, f"{self.name} to start"))

    def call(self, method: Callable[Concatenate[C, P], R], *arguments: P.args, **options: P.kwargs) -> Future[R]:
        """Call a method of the component between two ticks."""
        self._begin()
        name = method.__name__
        return call_remote(lambda: self._handle.call.remote(name, arguments, options), self.name, retry_s=0.0)

    def start(self) -> None:
        """Start ticking."""
        self._order(_TICKING, (True,), {})

    def stop(self) -> None:
        """Pause after the current tick."""
        if self.has_begun:
            self._order(_TICKING, (False,), {})

    def tell(self, method: Callable[Concatenate[C, P], None], *arguments: P.args, **options: P.kwargs) -> Future[None]:
        """Call a method of the component at once, also during a tick."""
        return self._order(method.__name__, arguments, options)

    def failure(self) -> BaseException | None:
        """Return the error that ended the ticking, by the last status, and pass on new reports. Never waits."""
        if not self.has_begun:
            return None
        self._refresh()
        if self._asked.done():
            error = self._asked.exception()
            if isinstance(error, NodeLostError) and not self._status.started and self._is_being_placed:
                return NotPlacedError(str(error))
            # A worker out of reach is given up, too. If it is alive after all, its further inserts do no harm.
            return WorkerDiedError(str(error)) if isinstance(error, PortClosedError) else error
        if self._unanswered_s() > _ANSWER_DEADLINE_S:
            return PortTimeoutError(f"the process of {self.name} has not answered for {_ANSWER_DEADLINE_S:g} s")
        failure: BaseException | None = self._status.failure
        return failure

    @property
    def waiting_for(self) -> str:
        """Name of the call that the component waited for at its last status; "" for none."""
        return self._status.waiting_for

    def silent_s(self, waiting_for: str) -> float:
        """Return the seconds for which the component has been waiting for `waiting_for`.

        A component may block its whole process, for example with an environment in native code. Its process then
        answers no more, and the component may still be waiting for whatever its last status named.
        """
        if self.has_begun:
            self._refresh()
        status = self._status
        if not status.started:
            return 0.0
        unanswered_s = self._unanswered_s()
        if status.waiting_for == waiting_for:
            return float(status.silent_s) + unanswered_s
        may_hang = waiting_for == ENVIRONMENT and status.waiting_for not in (CONSTRUCTION, COMPILATION)
        return unanswered_s if may_hang else 0.0

    def pass_on_reports(self, timeout_s: float) -> None:
        """Pass on all reports that the component has made so far, if its process answers within the time."""
        for _ in range(2 if self.has_begun else 0):  # the status under way may be older than the last report
            wait_for([self._asked], timeout_s)
            self._refresh()

    def replace(self) -> None:
        """Kill the process, and start another with the next incarnation.

        Raises:
            NoPlaceError: there is no place for another one; nothing has changed.
        """
        options = self._options()
        if self._status.started:
            self._placed_at = time.monotonic()
        self.kill()
        self.incarnation += 1
        self._start(options)

    def kill(self) -> None:
        """End the process at once, if there is one."""
        if self.has_begun:
            ray.kill(self._handle)

    def close(self) -> Any:
        """Ask the component to close, and return Ray's reference to the result."""
        return self._handle.close.remote()

    def _begin(self) -> None:
        """Start the process unless it has been started."""
        if not self.has_begun:
            self._placed_at = time.monotonic()
            self._start(self._options())

    def _start(self, options: dict[str, Any]) -> None:
        self.has_begun = True
        # Calls, start, stop, the status and the closing each need a thread besides the component's own.
        host = _HOSTS.get(self.name.partition("/")[0], _WorkerHost)
        make = remote_actor(host, max_concurrency=8, **options)
        self._handle = make.remote(functools.partial(self._factory, self.incarnation), self.name)
        self._status = Status()
        self._ask()

    @property
    def _is_being_placed(self) -> bool:
        return time.monotonic() - self._placed_at < _PLACING_S

    def _order(self, what: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Future[None]:
        self._begin()
        number = next(self._order_numbers)
        return call_remote(
            lambda: self._handle.obey.remote(number, what, arguments, options), self.name, retry_s=RETRY_S
        )

    def _refresh(self) -> None:
        """If a new status has arrived, keep it, pass on its reports, and ask for the next status."""
        if not self._asked.done() or self._asked.exception() is not None:
            return
        self._status = self._asked.result()
        for report in self._status.reports:
            self._reports.report(report)
        self._ask()

    def _ask(self) -> None:
        self._asked = call_remote(lambda: self._handle.status.remote(), self.name, retry_s=RETRY_S)
        self._asked_at = time.monotonic()

    def _unanswered_s(self) -> float:
        return 0.0 if self._asked.done() else time.monotonic() - self._asked_at


class Status:
    """The status of a worker's process: its failure, what it waits for and for how long, and its new reports."""

    def __init__(
        self,
        failure: BaseException | None = None,
        waiting_for: str = "",
        silent_s: float = 0.0,
        reports: tuple[Report, ...] = (),
        started: bool = False,
    ):
        self.failure = failure
        self.waiting_for = waiting_for
        self.silent_s = silent_s
        self.reports = reports
        self.started = started


class _Outbox:
    """Keeps a worker's reports until the next status. Any thread may call."""

    def __init__(self) -> None:
        self._reports: list[Report] = []
        self._lock = threading.Lock()

    def report(self, report: Report) -> None:
        with self._lock:
            self._reports.append(report)

    def drain(self) -> tuple[Report, ...]:
        with self._lock:
            reports, self._reports = tuple(self._reports), []
        return reports


class _WorkerHost:
    """A Ray actor with a `Host`; every call has a thread of its own."""

    def __init__(self, factory: Callable[[], Any], name: str):
        self._name = name
        self._outbox = _Outbox()
        self._host: Host[Any] = Host(factory, self._outbox, name)
        self._usage = ProcessUsage()
        self._obeying = threading.Lock()
        self._obeyed: dict[str, int] = {}

    def pid(self) -> int:
        return os.getpid()

    def call(self, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self._host.call_named(method, arguments, options).result()

    def obey(self, number: int, what: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Carry out an order, unless a later order of the same kind came first: Ray keeps no order among threads."""
        with self._obeying:
            if number < self._obeyed.get(what, 0):
                return
            self._obeyed[what] = number
            if what != _TICKING:
                self._host.tell(what, arguments, options)
            elif arguments[0]:
                self._host.start()
            else:
                self._host.stop()

    def status(self) -> Status:
        failure = self._host.failure()
        if failure is not None and not _crosses(failure):
            failure = PortError(f"{type(failure).__name__}: {failure}")
        waiting_for = self._host.waiting_for
        reports = (*self._outbox.drain(), Report(self._name, gauges=self._usage.gauges(self._name)))
        return Status(failure, waiting_for, self._host.silent_s(waiting_for), reports, started=True)

    def close(self) -> bool:
        """Close the component, and return whether an environment of its hangs meanwhile."""
        return not self._host.close() and self._host.waiting_for == CLOSING


class _LearnerHost(_WorkerHost):
    """The host of a learner, by whose name `ps` and Ray's dashboard show its process."""


class _ActorHost(_WorkerHost):
    """The host of an actor."""


class _EvaluatorHost(_WorkerHost):
    """The host of an evaluator."""


_HOSTS = {"learner": _LearnerHost, "actor": _ActorHost, "evaluator": _EvaluatorHost}
"""By the component's name without its number."""


def _crosses(error: BaseException) -> bool:
    """Return whether an error can be pickled and rebuilt, which a user's own class may not support."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # noqa: BLE001 - any error of the class's own code means that it cannot
        return False
