"""The interface of runtimes: what `launch.topology` asks of one, so that one topology runs in threads and on Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from laser.ports import ParameterPort, PortClosedError, ReplayPort, ReportPort
from launch.recording.tracker import Tracker

C_co = TypeVar("C_co", covariant=True)
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class WorkerDiedError(PortClosedError):
    """The process of a worker ended by itself; a new one can take its place."""


class Worker(Protocol[C_co]):
    """A hosted actor, learner or evaluator (see `launch.runtimes.host.Host`). May be called from any thread.

    Methods are named by their class, as in `worker.call(Learner.step, 3)`, so that a type checker sees what is called.
    """

    name: str
    incarnation: int

    def call(self, method: Callable[Concatenate[C_co, P], R], *arguments: P.args, **options: P.kwargs) -> Future[R]:
        """Call a method of the hosted object between two of its ticks; the future holds its result or exception."""

    def start(self) -> None:
        """Make the object tick until `stop`."""

    def stop(self) -> None:
        """Make it pause after the current tick; returns at once."""

    def tell(
        self, method: Callable[Concatenate[C_co, P], None], *arguments: P.args, **options: P.kwargs
    ) -> Future[None]:
        """Call a method that the hosted object allows others to call at any moment, amid its ticks.

        It may arrive late; of several calls of one method the last one counts. The future is done once it has arrived.
        """

    def failure(self) -> BaseException | None:
        """Return what ended the object's ticking, if something did."""

    def silent_s(self, waiting_for: str) -> float:
        """Return for how many seconds the object has been waiting for `waiting_for`; 0 if it is not."""

    def replace(self) -> None:
        """Give up on an object and put a new one, with the next incarnation, in its place; it ticks once started."""


class ShardPort(ReplayPort, Protocol):
    """A shard as the launcher sees it: what actors and learners use, and saving for checkpoints."""

    def state_dict(self) -> dict[str, Any]:
        """Return the shard's state, once nobody uses it."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave.

        Raises:
            ValueError: it was made for other replay settings.
        """


class Runtime(Protocol):
    """Places components and connects them. Where it crosses processes, factories and ports are pickled."""

    @property
    def notes(self) -> Sequence[str]:
        """What a user should know of the place; never an error."""

    def shards(self, factories: list[Callable[[], Any]]) -> list[ShardPort]:
        """Place the shards of the replay and return a port to each."""

    def shard_for(self, actor: int, shards: Sequence[ShardPort]) -> ReplayPort:
        """Return the port of these shards through which an actor inserts; it is the actor's for as long as it lives."""

    def parameter_store(self, factory: Callable[[], Any]) -> ParameterPort:
        """Place the parameter store."""

    def reports(self, sink: ReportPort) -> ReportPort:
        """Return a port that carries reports from wherever workers live to `sink`."""

    def trackers(self, run: str) -> Sequence[Tracker]:
        """Return what of the place itself takes a run's numbers; `run` is its name there."""

    def worker(self, name: str, factory: Callable[[int], C], reports: ReportPort) -> Worker[C]:
        """Place an actor, learner or evaluator made by `factory(incarnation)`.

        Args:
            name: its role, and a number where there are several: "learner", "actor/3". Unique.
            factory: makes it, where it lives.
            reports: where its reports go.
        """

    def close(self) -> None:
        """End everything that was placed."""
