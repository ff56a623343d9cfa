"""The interface of runtimes, which lets `launch.topology` build one topology in threads and on Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from laser.ports import ParameterPort, PortClosedError, ReplayPort, ReportPort
from laser.replay_stats import ReplayStats
from launch.recording.tracker import Tracker
from replay_server.saving.contents import Contents
from replay_server.saving.spreading import Refill

C_co = TypeVar("C_co", covariant=True)
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class WorkerDiedError(PortClosedError):
    """A worker's process ended by itself; a new process can take its place."""


class NotPlacedError(WorkerDiedError):
    """A worker's process has not started, since the node that it was placed on is lost: place it again."""


class Worker(Protocol[C_co]):
    """A hosted actor, learner or evaluator (see `launch.runtimes.host.Host`). May be called from any thread.

    Methods are given as functions of their class, as in `worker.call(Learner.step, 3)`, so that a type checker checks
    the call.
    """

    name: str
    incarnation: int

    def call(self, method: Callable[Concatenate[C_co, P], R], *arguments: P.args, **options: P.kwargs) -> Future[R]:
        """Call a method of the hosted object between two of its ticks; the future holds its result or exception."""

    def start(self) -> None:
        """Make the object tick until `stop`."""

    def stop(self) -> None:
        """Make the object pause after the current tick; return at once."""

    def tell(
        self, method: Callable[Concatenate[C_co, P], None], *arguments: P.args, **options: P.kwargs
    ) -> Future[None]:
        """Call a method that the hosted object allows at any moment, also during a tick.

        The call may arrive late; of several calls of one method the last one counts. The future is done once the call
        has arrived.
        """

    def failure(self) -> BaseException | None:
        """Return the error that ended the object's ticking, or None."""

    @property
    def waiting_for(self) -> str:
        """Name of the call that the object waited for when it was last heard of; "" for none."""

    def silent_s(self, waiting_for: str) -> float:
        """Return the seconds for which the object has been waiting for `waiting_for`; 0 if it is not."""

    def pass_on_reports(self, timeout_s: float) -> None:
        """Pass on all reports that the object has made so far, if its process answers within the time."""

    def replace(self) -> None:
        """Give up the object and put a new one, with the next incarnation, in its place; it does not tick yet."""


class ShardPort(ReplayPort, Protocol):
    """A shard's port for the launcher: the port of actors and learners, with saving for checkpoints."""

    def partial_state(self, known: Sequence[tuple[int, int]], life: int) -> tuple[dict[str, Any], Contents]:
        """Return the shard's state, and the contents not known yet (see `Shard.partial_state`)."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the shard's state from `partial_state` with all its contents, or from an older `state_dict`.

        Raises:
            ValueError: the state was saved with other replay settings.
        """

    def refill(self, parts: Refill) -> None:
        """Take over unrolls that another number of shards held (see `Shard.refill`).

        Raises:
            ValueError: they do not fit.
        """

    def accounts(self) -> dict[str, Any]:
        """Return the shard's accounts without its content (see `replay_server.serving.shard.Shard.accounts`)."""

    def load_accounts(self, streams: Sequence[dict[str, Any]], ledgers: Sequence[dict[str, Any]]) -> None:
        """Continue the accounts of an earlier start (see `replay_server.serving.shard.Shard.load_accounts`)."""

    def end_inserts(self, member: int) -> None:
        """Fail inserts of a member that wait for room, now and from now on.

        Raises:
            PortError: the shard does not answer.
        """

    def end_samples(self, member: int) -> None:
        """Fail a member's pending samples, whose learner has died.

        Raises:
            PortError: the shard does not answer.
        """

    def presence(self) -> Future[Any]:
        """Return a future that fails with `PortAwayError` while the shard waits for `begin_again`."""

    def begin_again(self, saved: dict[str, Any] | None, last_seen: ReplayStats | None) -> Future[None]:
        """Let a shard that lost its contents and was started anew serve calls, which it refuses until then.

        Args:
            saved: its own newest saved state, from `state_dict`; None: it begins empty.
            last_seen: its last statistics before it died, whose ledger it continues; None: it was never seen.
        """


class StorePort(ParameterPort, Protocol):
    """The parameter store's port for the launcher."""

    def newest_version(self) -> Future[int]:
        """Return the newest version's number; -1 before the first."""

    def begin_again(self) -> Future[None]:
        """Let a store that lost its parameters and was started anew serve calls, which it refuses until then."""


class Runtime(Protocol):
    """Places components and connects them. Factories and ports that cross processes are pickled."""

    @property
    def notes(self) -> Sequence[str]:
        """Warnings about the runtime for the user; never errors."""

    def check(self) -> None:
        """Look whether the runtime itself still works; cheap enough to call again and again.

        Raises:
            RuntimeFailedError: one of its own processes has ended.
        """

    def room(self) -> float:
        """Return the number of members for which there is room now; inf where no nodes come and go. Never waits."""

    def crowded(self) -> list[str]:
        """Return the names of actors that would have more room if they were replaced now. Never waits."""

    def shards(self, factories: list[Callable[[], Any]], outlasts_death: bool = False) -> list[ShardPort]:
        """Place the shards of the replay and return a port to each.

        Args:
            factories: makes each shard.
            outlasts_death: start a shard anew if its process dies; it then waits for `ShardPort.begin_again`.
        """

    def shard_for(self, actor: int, shards: Sequence[ShardPort]) -> ReplayPort:
        """Return the port to one of these shards through which an actor inserts as long as it lives."""

    def parameter_store(self, factory: Callable[[], Any], outlasts_death: bool = False) -> StorePort:
        """Place the parameter store.

        Args:
            factory: makes the store.
            outlasts_death: start it anew if its process dies; it then waits for `StorePort.begin_again`.
        """

    def reports(self, sink: ReportPort) -> ReportPort:
        """Return a port that carries reports from the workers' threads or processes to `sink`."""

    def trackers(self, run: str) -> Sequence[Tracker]:
        """Return the runtime's own trackers for a run's numbers; `run` is the run's name in them."""

    def worker(
        self, name: str, factory: Callable[[int], C], reports: ReportPort, when_called: bool = False
    ) -> Worker[C]:
        """Place an actor, learner or evaluator made by `factory(incarnation)`.

        Args:
            name: the worker's unique name: its role, with a number if there are several, as in "learner", "actor/3".
            factory: makes the component, in its own thread or process.
            reports: receiver of the component's reports.
            when_called: a process of its own may begin with the first call, since the component may never be called.
        """

    def release(
        self, workers: Sequence[Worker[Any]], parameters: ParameterPort, shards: Sequence[ShardPort]
    ) -> list[str]:
        """End these components for good, so that others can use their room.

        Args:
            workers: workers that have been stopped.
            parameters: their parameter store.
            shards: shards that no other worker uses.

        Returns:
            a complaint about each worker with an environment whose `close()` hangs.
        """

    def close(self) -> list[str]:
        """End all components that were placed; return complaints as `release` does."""
