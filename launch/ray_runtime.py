"""The Ray runtime: the same components as Ray actors. The only file that imports Ray."""

from __future__ import annotations

import asyncio
import functools
import os
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

# Read by Ray when it is imported. Ray starts workers at nice 15, where they starve beside the driver; and without a token
# anybody who reaches a port may run code.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray
import ray.exceptions

from laser.ports import (
    ColumnWrites,
    InsertReceipt,
    ParameterPort,
    Parameters,
    PortClosedError,
    PortError,
    PortTimeoutError,
    ReplayPort,
    Report,
    ReportPort,
    Sample,
    SampleRequest,
    WriteReceipt,
)
from laser.unroll import Unrolls
from launch.host import Host

T = TypeVar("T")

_START_DEADLINE_S = 120.0
_STATE_DEADLINE_S = 120.0


class RayRuntime:
    """Places everything as Ray actors on this machine, bound to loopback (see `launch.runtime.Runtime`).

    Args:
        learner_gpus: GPUs the learner's actor asks for.
    """

    def __init__(self, learner_gpus: float | None = None):
        _make_token_private()
        ray.init(
            address="local",
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            logging_level="error",
            configure_logging=False,
        )
        gpus = ray.cluster_resources().get("GPU", 0.0)
        self._learner_gpus = min(1.0, gpus) if learner_gpus is None else learner_gpus
        self._workers: list[RayWorker] = []
        self._mailbox: Any = None
        self._closing = threading.Event()
        self._reader: threading.Thread | None = None

    def shards(self, factories: list[Callable[[], Any]]) -> list[ReplayPort]:
        """Place a shard per actor."""
        host = ray.remote(num_cpus=0, max_restarts=0)(_ShardHost)
        handles = [host.remote(factory) for factory in factories]
        _get([handle.ready.remote() for handle in handles], _START_DEADLINE_S, "the replay's shards to start")
        return [RayReplay(handle) for handle in handles]

    def parameter_store(self, factory: Callable[[], Any]) -> ParameterPort:
        """Place the parameter store."""
        return RayParameters(ray.remote(num_cpus=0)(_ParameterHost).remote(factory))

    def reports(self, sink: ReportPort) -> ReportPort:
        """Carry reports to `sink` through a mailbox that a thread of this process empties."""
        self._mailbox = ray.remote(num_cpus=0)(_Mailbox).remote()
        self._reader = threading.Thread(target=self._read_mailbox, args=(sink,), name="mailbox", daemon=True)
        self._reader.start()
        return RayReports(self._mailbox)

    def worker(self, name: str, factory: Callable[[int], Any], reports: ReportPort) -> RayWorker:
        """Start a worker's actor."""
        worker = RayWorker(name, factory, reports, self._learner_gpus if name == "learner" else 0.0)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        """End all actors, and the Ray processes this runtime started."""
        self._closing.set()
        for worker in self._workers:
            worker.kill()
        if self._reader is not None:
            self._reader.join(timeout=5.0)
        ray.shutdown()

    def _read_mailbox(self, sink: ReportPort) -> None:
        while not self._closing.wait(0.2):
            try:
                for report in ray.get(self._mailbox.drain.remote(), timeout=10.0):
                    sink.report(report)
            except ray.exceptions.GetTimeoutError:
                continue  # reports may be late
            except (ray.exceptions.RayError, RuntimeError):
                return  # the runtime is going down


class RayWorker:
    """A component in a Ray actor (see `launch.runtime.Worker`)."""

    def __init__(self, name: str, factory: Callable[[int], Any], reports: ReportPort, num_gpus: float):
        self.name = name
        self.incarnation = 0
        self._factory = factory
        self._reports = reports
        self._num_gpus = num_gpus
        self._asked: Future[Any] | None = None
        self._status: tuple[BaseException | None, str, float] = (None, "", 0.0)
        self._status_at = time.monotonic()
        self._handle = self._make()

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the component between two ticks."""
        return _future(self._handle.call.remote(method, *arguments))

    def start(self) -> None:
        """Begin to tick."""
        self._handle.start.remote()

    def stop(self) -> None:
        """Pause after the current tick."""
        self._handle.stop.remote()

    def set(self, attribute: str, value: Any) -> None:
        """Set an attribute of the component."""
        self._handle.set.remote(attribute, value)

    def failure(self) -> BaseException | None:
        """Return what ended the ticking, as of the last answer; never waits."""
        if self._asked is None:
            self._asked = _future(self._handle.status.remote())
        elif self._asked.done():
            asked, self._asked = self._asked, None
            error = asked.exception()
            if error is not None:
                return error
            self._status, self._status_at = asked.result(), time.monotonic()
        return self._status[0]

    def silent_s(self, waiting_for: str) -> float:
        """Return for how long the component has been waiting for `waiting_for`."""
        _, current, silent_s = self._status
        return silent_s if current == waiting_for else 0.0

    def replace(self) -> None:
        """Kill the actor and start one with the next incarnation."""
        self.kill()
        self.incarnation += 1
        self._asked, self._status = None, (None, "", 0.0)
        self._handle = self._make()
        self.start()

    def kill(self) -> None:
        """End the actor's process."""
        ray.kill(self._handle)

    def _make(self) -> Any:
        # Calls, the status and the mailbox each need a thread beside the component's own.
        host = ray.remote(num_cpus=0, num_gpus=self._num_gpus, max_restarts=0, max_concurrency=8)(_WorkerHost)
        return host.remote(functools.partial(self._factory, self.incarnation), self._reports, self.name)


class RayReplay:
    """A port to a shard in a Ray actor; picklable."""

    def __init__(self, handle: Any):
        self._handle = handle

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """See `ReplayPort.insert`. Never retried by Ray: an insert that failed may have been applied."""
        return _future(self._handle.insert.options(max_task_retries=0).remote(unrolls))

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """See `ReplayPort.sample`."""
        return _future(self._handle.sample.remote(request))

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """See `ReplayPort.write`."""
        return _future(self._handle.write.remote(writes))

    def stats(self) -> Future[dict[str, Any]]:
        """See `ReplayPort.stats`."""
        return _future(self._handle.stats.remote())

    def state_dict(self) -> dict[str, Any]:
        """Return the shard's state."""
        state: dict[str, Any] = _get(self._handle.state_dict.remote(), _STATE_DEADLINE_S, "the state of a shard")
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        _get(self._handle.load_state_dict.remote(state), _STATE_DEADLINE_S, "a shard to take its state")


class RayParameters:
    """A port to the parameter store in a Ray actor; picklable."""

    def __init__(self, handle: Any):
        self._handle = handle

    def publish(self, parameters: Parameters) -> Future[None]:
        """See `ParameterPort.publish`."""
        return _future(self._handle.publish.remote(parameters))

    def newest(self, newer_than: int) -> Future[Parameters | None]:
        """See `ParameterPort.newest`."""
        return _future(self._handle.newest.remote(newer_than))


class RayReports:
    """Sends reports to the mailbox; picklable, never waits."""

    def __init__(self, mailbox: Any):
        self._mailbox = mailbox

    def report(self, report: Report) -> None:
        """Hand over a report; it may be lost with its process."""
        self._mailbox.put.remote(report)


class _ShardHost:
    """A shard in an actor. Asynchronous, so that calls that must wait do not hold up others."""

    def __init__(self, factory: Callable[[], Any]):
        self._shard = factory()

    async def ready(self) -> bool:
        return True

    async def insert(self, unrolls: Unrolls) -> Any:
        return await _settled(self._shard.insert(unrolls))

    async def sample(self, request: SampleRequest) -> Any:
        return await _settled(self._shard.sample(request))

    async def write(self, writes: ColumnWrites) -> Any:
        return await _settled(self._shard.write(writes))

    async def stats(self) -> Any:
        return await _settled(self._shard.stats())

    async def state_dict(self) -> Any:
        return self._shard.state_dict()

    async def load_state_dict(self, state: dict[str, Any]) -> None:
        self._shard.load_state_dict(state)


class _ParameterHost:
    def __init__(self, factory: Callable[[], Any]):
        self._store = factory()

    def publish(self, parameters: Parameters) -> None:
        self._store.publish(parameters).result()

    def newest(self, newer_than: int) -> Parameters | None:
        newest: Parameters | None = self._store.newest(newer_than).result()
        return newest


class _Mailbox:
    def __init__(self) -> None:
        self._reports: list[Report] = []

    def put(self, report: Report) -> None:
        self._reports.append(report)

    def drain(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports


class _WorkerHost:
    """A `Host` in an actor; every method has a thread to itself."""

    def __init__(self, factory: Callable[[], Any], reports: ReportPort, name: str):
        self._host = Host(factory, reports, name)

    def call(self, method: str, *arguments: Any) -> Any:
        return self._host.call(method, *arguments).result()

    def start(self) -> None:
        self._host.start()

    def stop(self) -> None:
        self._host.stop()

    def set(self, attribute: str, value: Any) -> None:
        self._host.set(attribute, value)

    def status(self) -> tuple[BaseException | None, str, float]:
        return self._host.failure(), "environment", self._host.silent_s("environment")


async def _settled(future: Future[T]) -> T:
    if future.done():
        return future.result()
    return await asyncio.wrap_future(future)


def _future(reference: Any) -> Future[Any]:
    """Return the future of a Ray call, with Ray's failures turned into the port's."""
    outer: Future[Any] = Future()
    inner: Future[Any] = reference.future()

    def settle(done: Future[Any]) -> None:
        if not outer.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is None:
            outer.set_result(done.result())
        else:
            outer.set_exception(_port_error(error))

    inner.add_done_callback(settle)
    return outer


def _port_error(error: BaseException) -> BaseException:
    if isinstance(error, ray.exceptions.RayTaskError):
        return error.cause if isinstance(error.cause, BaseException) else PortError(str(error))
    if isinstance(error, ray.exceptions.RayActorError):
        return PortClosedError(f"a Ray actor has ended: {' '.join(str(error).split())[:300]}")
    if isinstance(error, ray.exceptions.GetTimeoutError):
        return PortTimeoutError(str(error))
    return PortError(str(error)) if isinstance(error, ray.exceptions.RayError) else error


def _get(references: Any, timeout_s: float, what: str) -> Any:
    try:
        return ray.get(references, timeout=timeout_s)
    except ray.exceptions.GetTimeoutError as error:
        raise PortTimeoutError(f"waited {timeout_s:g} s for {what}") from error
    except ray.exceptions.RayError as error:
        raise _port_error(error) from error


def _make_token_private() -> None:
    """Create the token file before Ray does, which would leave it readable by everybody."""
    path = Path.home() / ".ray" / "auth_token"
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return
    if not path.exists():
        import secrets

        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
