"""The local runtime: every component in this process, each worker in a thread of its own, without Ray."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from actors.heartbeat import CLOSING
from laser.futures import done
from laser.ports import ParameterPort, ReplayPort, ReportPort
from laser.waiting import waiting_for
from launch.recording.tracker import Tracker
from launch.runtimes.hangs import hung_in_close
from launch.runtimes.host import CLOSE_DEADLINE_S, Host
from launch.runtimes.runtime import ShardPort, StorePort, Worker

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class LocalWorker(Generic[C]):
    """A component in a thread of this process (see `launch.runtimes.runtime.Worker`)."""

    def __init__(self, name: str, factory: Callable[[int], C], reports: ReportPort):
        self.name = name
        self.incarnation = 0
        self._factory = factory
        self._reports = reports
        self._host = self._make_host()

    def call(self, method: Callable[Concatenate[C, P], R], *arguments: P.args, **options: P.kwargs) -> Future[R]:
        """Call a method of the component between two ticks."""
        return self._host.call(method, *arguments, **options)

    def start(self) -> None:
        """Start ticking."""
        self._host.start()

    def stop(self) -> None:
        """Pause after the current tick."""
        self._host.stop()

    def tell(self, method: Callable[Concatenate[C, P], None], *arguments: P.args, **options: P.kwargs) -> Future[None]:
        """Call a method of the component at once, in this thread."""
        self._host.tell(method.__name__, arguments, options)
        return done(None)

    def failure(self) -> BaseException | None:
        """Return the error that ended the ticking, or None."""
        return self._host.failure()

    @property
    def waiting_for(self) -> str:
        """Name of the call that the component waits for; "" for none."""
        return self._host.waiting_for

    def silent_s(self, waiting_for: str) -> float:
        """Return the seconds for which the component has been waiting for `waiting_for`."""
        return self._host.silent_s(waiting_for)

    def pass_on_reports(self, timeout_s: float) -> None:
        """Do nothing: the host passes on each report at once."""

    def replace(self) -> None:
        """Make a new component and leave the hung thread behind, which ends when its call returns."""
        self._host.close(timeout_s=0.0)
        self.incarnation += 1
        self._host = self._make_host()

    def close(self, timeout_s: float = CLOSE_DEADLINE_S) -> bool:
        """End the thread; return False if it is stuck."""
        return self._host.close(timeout_s)

    def _make_host(self) -> Host[C]:
        return Host(functools.partial(self._factory, self.incarnation), self._reports, self.name)


class LocalRuntime:
    """Places everything in this process (see `launch.runtimes.runtime.Runtime`)."""

    notes: Sequence[str] = ()

    def __init__(self) -> None:
        self._workers: list[LocalWorker[Any]] = []
        self._shards: list[Any] = []

    def check(self) -> None:
        """Do nothing: there is no other process."""

    def shards(self, factories: list[Callable[[], Any]], outlasts_death: bool = False) -> list[ShardPort]:
        """Make the shards in this process."""
        shards = [factory() for factory in factories]
        self._shards += shards
        return shards

    def shard_for(self, actor: int, shards: Sequence[ShardPort]) -> ReplayPort:
        """Return a shard, assigned to the actors in turn."""
        return shards[actor % len(shards)]

    def parameter_store(self, factory: Callable[[], Any], outlasts_death: bool = False) -> StorePort:
        """Make the parameter store in this process."""
        store: StorePort = factory()
        return store

    def reports(self, sink: ReportPort) -> ReportPort:
        """Return the sink itself."""
        return sink

    def trackers(self, run: str) -> Sequence[Tracker]:
        """Return no tracker: no monitoring reads this process."""
        return ()

    def worker(
        self, name: str, factory: Callable[[int], C], reports: ReportPort, when_called: bool = False
    ) -> LocalWorker[C]:
        """Start a thread for a component."""
        worker = LocalWorker(name, factory, reports)
        self._workers.append(worker)
        return worker

    def room(self) -> float:
        """Return that any number of members has room: this machine's plan decides."""
        return math.inf

    def crowded(self) -> list[str]:
        """Return no actor: no nodes come and go."""
        return []

    def release(
        self, workers: Sequence[Worker[Any]], parameters: ParameterPort, shards: Sequence[ShardPort]
    ) -> list[str]:
        """End the workers' threads, and close the shards."""
        for shard in [each for each in self._shards if each in shards]:
            shard.close()
            self._shards.remove(shard)
        ending = [worker for worker in self._workers if worker in workers]
        self._workers = [worker for worker in self._workers if worker not in workers]
        return _end(ending)

    def close(self) -> list[str]:
        """End all threads. Shards close first, so that no worker waits for them any more."""
        for worker in self._workers:
            worker.stop()
        for shard in self._shards:
            shard.close()
        return _end(self._workers)


def _end(workers: Sequence[LocalWorker[Any]]) -> list[str]:
    """End the threads of workers at the same time, and return the complaints about environments that hang meanwhile."""
    for worker in workers:
        worker.close(0.0)
    deadline = time.monotonic() + CLOSE_DEADLINE_S
    complaints = []
    for worker in workers:
        with waiting_for(f"{worker.name} to end"):
            is_over = worker.close(max(0.0, deadline - time.monotonic()))
        if not is_over and worker.silent_s(CLOSING):
            complaints.append(hung_in_close(worker.name))
    return complaints
