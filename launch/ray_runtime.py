"""The Ray runtime: the same components in processes of their own. Ray is imported here and in `launch.ray_ports`."""

from __future__ import annotations

import functools
import os
import pickle
import secrets
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

# Ray reads these when it is imported and when it starts. It would start workers at nice 15, where they starve beside
# the driver; without a token anybody who reaches a port may run code; it would listen on every network of the machine,
# whatever address it is given, unless it is told to do as on a desktop; and it would hide the cards from everybody.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray would print this to standard output; a run says it in a line of its own, or replaces the worker.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")

import ray
import ray.util

from laser.ports import ParameterPort, PortClosedError, PortError, PortTimeoutError, Report, ReportPort, wait
from launch.errors import LaunchError
from launch.host import Host
from launch.ray_ports import (
    INLINE_BYTES,
    NUM_RETRIES,
    RayParameters,
    RayReplay,
    call_remote,
    serve_parameters,
    serve_shard,
)
from launch.runtime import ShardPort, WorkerDiedError

_START_DEADLINE_S = 120.0
# A process that answers nothing at all for this long is taken for hung: even compilation lets other threads in.
_ANSWER_DEADLINE_S = 120.0
_CLOSE_DEADLINE_S = 5.0


class RayRuntime:
    """Places everything as Ray actors on this machine, bound to loopback (see `launch.runtime.Runtime`).

    It starts a Ray of its own, whatever else runs on the machine, and ends it in `close`.

    Raises:
        LaunchError: this process is connected to Ray already, or Ray did not start.
    """

    def __init__(self) -> None:
        if ray.is_initialized():
            raise LaunchError("runtime", "this process is connected to Ray already", "call ray.shutdown() before")
        _make_token_private()
        try:
            with _kept_as_it_was():
                _start_ray()
        except (RuntimeError, ConnectionError, TimeoutError, OSError) as error:
            ray.shutdown()
            line = " ".join(str(error).split())[:300]
            raise LaunchError("runtime", f"Ray did not start: {line}", "--runtime local needs no Ray") from error
        address = ray.util.get_node_ip_address()
        if address != "127.0.0.1":
            ray.shutdown()
            raise LaunchError(
                "runtime",
                f"Ray listens on {address}, where other machines reach it",
                "do not import ray before launch.ray_runtime, which it reads its settings from",
            )
        self._workers: list[RayWorker] = []
        self._ports: list[RayReplay] = []

    def shards(self, factories: list[Callable[[], Any]]) -> list[ShardPort]:
        """Place a shard per process."""
        handles = [serve_shard(factory) for factory in factories]
        answers = [
            call_remote(handle.pid.remote, f"shard {index} of the replay", NUM_RETRIES)
            for index, handle in enumerate(handles)
        ]
        pids = [wait(answer, _START_DEADLINE_S, "the replay's shards to start") for answer in answers]
        self._ports = [
            RayReplay(handle, index, pid) for index, (handle, pid) in enumerate(zip(handles, pids, strict=True))
        ]
        return cast(list[ShardPort], self._ports)

    def parameter_store(self, factory: Callable[[], Any]) -> ParameterPort:
        """Place the parameter store."""
        return RayParameters(serve_parameters(factory))

    def reports(self, sink: ReportPort) -> ReportPort:
        """Return the sink: each worker's reports come with its status, and are handed over here."""
        return sink

    def worker(self, name: str, factory: Callable[[int], Any], reports: ReportPort) -> RayWorker:
        """Start a worker's process."""
        worker = RayWorker(name, factory, reports)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        """Let workers close what they hold, as far as they answer, and end all processes of this Ray."""
        closing = [worker.close() for worker in self._workers]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_DEADLINE_S)
        self._workers = []
        ray.shutdown()


class RayWorker:
    """A component in a process of its own (see `launch.runtime.Worker`). `failure` belongs to one thread."""

    def __init__(self, name: str, factory: Callable[[int], Any], reports: ReportPort):
        self.name = name
        self.incarnation = 0
        self._factory = factory
        self._reports = reports
        self._start()

    @property
    def pid(self) -> int:
        """Return the process that hosts it; waits for it to start."""
        answer = call_remote(self._handle.pid.remote, self.name, NUM_RETRIES)
        return int(wait(answer, _START_DEADLINE_S, f"{self.name} to start"))

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the component between two ticks."""
        return call_remote(lambda: self._handle.call.remote(method, *arguments), self.name, num_retries=0)

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
        """Return what ended the ticking, as of the last answer; never waits. Hands on the reports that came along."""
        if self._asked.done():
            error = self._asked.exception()
            if isinstance(error, PortClosedError):
                return WorkerDiedError(str(error))
            if error is not None:
                return error
            self._status = self._asked.result()
            for report in self._status.reports:
                self._reports.report(report)
            self._ask()
        elif self._unanswered_s() > _ANSWER_DEADLINE_S:
            return PortTimeoutError(f"the process of {self.name} has not answered for {_ANSWER_DEADLINE_S:g} s")
        failure: BaseException | None = self._status.failure
        return failure

    def silent_s(self, waiting_for: str) -> float:
        """Return for how long the component has been waiting for `waiting_for`.

        A component may hold up its whole process, an environment in native code for example; then what it was waiting
        for when it last answered is not known to be over.
        """
        status = self._status
        if not status.started:
            return 0.0
        unanswered_s = self._unanswered_s()
        if status.waiting_for == waiting_for:
            return float(status.silent_s) + unanswered_s
        return unanswered_s if waiting_for == "environment" else 0.0

    def replace(self) -> None:
        """Kill the process and start one with the next incarnation."""
        self.kill()
        self.incarnation += 1
        self._start()
        self.start()

    def kill(self) -> None:
        """End the process at once."""
        ray.kill(self._handle)

    def close(self) -> Any:
        """Ask the component to close; return Ray's reference to the answer."""
        return self._handle.close.remote()

    def _start(self) -> None:
        # Calls, start, stop, the status and the closing each need a thread beside the component's own.
        make = cast(Any, ray.remote)(num_cpus=0, max_restarts=0, max_task_retries=0, max_concurrency=8)(_WorkerHost)
        self._handle = make.remote(functools.partial(self._factory, self.incarnation), self.name)
        self._status = Status()
        self._ask()

    def _ask(self) -> None:
        self._asked = call_remote(lambda: self._handle.status.remote(), self.name, num_retries=NUM_RETRIES)
        self._asked_at = time.monotonic()

    def _unanswered_s(self) -> float:
        return 0.0 if self._asked.done() else time.monotonic() - self._asked_at


class Status:
    """What a worker's process says of itself: its failure, what it waits for and for how long, and new reports."""

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
    """Keeps a worker's reports until they are asked for. Any thread may call."""

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
    """A `Host` in an actor; every method has a thread to itself."""

    def __init__(self, factory: Callable[[], Any], name: str):
        self._outbox = _Outbox()
        self._host = Host(factory, self._outbox, name)

    def pid(self) -> int:
        return os.getpid()

    def call(self, method: str, *arguments: Any) -> Any:
        return self._host.call(method, *arguments).result()

    def start(self) -> None:
        self._host.start()

    def stop(self) -> None:
        self._host.stop()

    def set(self, attribute: str, value: Any) -> None:
        self._host.set(attribute, value)

    def status(self) -> Status:
        failure = self._host.failure()
        if failure is not None and not _crosses(failure):
            failure = PortError(f"{type(failure).__name__}: {failure}")
        waiting_for = self._host.waiting_for
        return Status(failure, waiting_for, self._host.silent_s(waiting_for), self._outbox.drain(), started=True)

    def close(self) -> bool:
        return self._host.close(_CLOSE_DEADLINE_S)


def _crosses(error: BaseException) -> bool:
    """Return whether an error can be pickled and rebuilt: not every class of a user's environment can."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # noqa: BLE001 - whatever its own code raises, it does not cross
        return False


def _start_ray() -> None:
    # Workers find the modules that this process finds, a user's own environments among them.
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    ray.init(
        address="local",
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        configure_logging=False,
        _system_config={"max_direct_call_object_size": INLINE_BYTES},
    )


@contextmanager
def _kept_as_it_was() -> Iterator[None]:
    """Restore what starting Ray changes here: the import path of children, and what the process does on SIGTERM.

    With Ray's own handler a run could not save any more when it is asked to end.
    """
    python_path = os.environ.get("PYTHONPATH")
    on_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = python_path
        if on_main_thread:
            signal.signal(signal.SIGTERM, handler)


def _make_token_private() -> None:
    """Create the token file before Ray does, which would leave it readable by everybody."""
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return
    path = Path.home() / ".ray" / "auth_token"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    except FileExistsError:
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        raise LaunchError(
            "runtime", f"{path} cannot be written: {error.strerror}", "set RAY_AUTH_TOKEN_PATH"
        ) from error
    else:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
