"""The two ways a population runs: freely, everybody at its own pace, or in lockstep, repeatable bit by bit."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from actors.actor import Actor
from laser.ports import wait
from laser.replay_stats import ReplayStats
from launch.errors import LaunchError
from launch.recording.recorder import Snapshot
from launch.runtimes.hangs import wait_unless_hung
from launch.runtimes.runtime import Worker
from launch.sessions.attendant import Attendant
from launch.sessions.pace import PaceLimit
from learner.learner import REPORT_INTERVAL_S, Learner

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")

# Between two looks at a freely running population.
_LOOK_INTERVAL_S = 0.1
_PACED_LOOK_INTERVAL_S = 0.02
# A lockstep call contains whole unrolls or updates, the first of them with compilation.
_CALL_DEADLINE_S = 900.0
# Each call wakes two threads, which small agents' steps would feel; a large one's calls are to keep their deadline.
_STEPS_PER_CALL = 16
# Nobody is looked after meanwhile.
_LAST_DEADLINE_S = 120.0

Save = Callable[[Attendant, Snapshot], None]


class Evolution(Protocol):
    """What may change members while they train (see `launch.sweeps.population`)."""

    def consider(self, attendant: Attendant, snapshot: Snapshot) -> None:
        """Decide about a member, if it is time, and carry it out."""


class Schedule(ABC):
    """What both schedules share: when to save, when to stop, and that one member's failure is not the others'.

    Args:
        attendants: of all members.
        should_stop: asked between steps, e.g. for signals.
        save: called with a member and its snapshot when a checkpoint is due.
        evolution: asked about every member now and then.
    """

    def __init__(
        self,
        attendants: Sequence[Attendant],
        should_stop: Callable[[], bool],
        save: Save,
        evolution: Evolution | None = None,
    ):
        self.attendants = list(attendants)
        self.should_stop = should_stop
        self.save = save
        self.evolution = evolution
        self._saved_at = time.monotonic()

    @abstractmethod
    def run(self) -> None:
        """Run until all members are at their end; each attendant knows why.

        Raises:
            the error that ended a member, where no member is left.
        """

    @property
    def running(self) -> list[Attendant]:
        """The members that are not at their end."""
        return [attendant for attendant in self.attendants if not attendant.finished]

    def end_finished(self) -> None:
        """Stop members that have nothing left to do: of a resumed population some may have been at their end."""
        for attendant in self.running:
            why = attendant.why_over(attendant.recorder.snapshot())
            if why:
                attendant.stop(why)

    def save_if_due(self) -> None:
        """Write a checkpoint of every living member when the interval has passed."""
        if not self.running:
            return
        interval_s = min(attendant.topology.config.learner.checkpoint_interval_s for attendant in self.running)
        if time.monotonic() - self._saved_at < interval_s:
            return
        for attendant in [*self.running, *self._keepers()]:
            try:
                self.save(attendant, attendant.recorder.snapshot())
            except LaunchError:
                raise  # a full disk is everybody's
            except Exception as error:  # noqa: BLE001 - one member's failure; raised if it was the last
                self.fail(attendant, error)
        self._saved_at = time.monotonic()

    def _keepers(self) -> list[Attendant]:
        """Return who is at its end and keeps, in its checkpoints, the replay that the others go on filling."""
        if all(attendant.topology.owns_replay for attendant in self.running):
            return []
        return [
            attendant
            for attendant in self.attendants
            if attendant.finished not in ("", "failed")
            and attendant.topology.owns_replay
            and attendant.topology.config.checkpoint_replay
        ]

    @contextmanager
    def failing_alone(self, attendant: Attendant) -> Iterator[None]:
        """Let what goes wrong inside be one member's failure, unless it was the last; see `fail`."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept with the member, or raised
            self.fail(attendant, error)

    def fail(self, attendant: Attendant, error: Exception) -> None:
        """Give up on one member.

        Raises:
            the error, where no other member is left to go on.
        """
        attendant.stop("failed", error)
        if all(other.finished == "failed" for other in self.attendants):
            raise error


class FreeSchedule(Schedule):
    """Everybody ticks at its own pace; this looks on, and holds back who runs ahead of the others.

    Args:
        attendants: see `Schedule`.
        should_stop: see `Schedule`.
        save: see `Schedule`.
        evolution: see `Schedule`.
        pace: of the members, by their place among the attendants; None lets them run.
    """

    def __init__(
        self,
        attendants: Sequence[Attendant],
        should_stop: Callable[[], bool],
        save: Save,
        evolution: Evolution | None = None,
        pace: PaceLimit | None = None,
    ):
        super().__init__(attendants, should_stop, save, evolution)
        self.pace = pace

    def run(self) -> None:
        """Run until all members are at their end; each attendant knows why.

        Raises:
            the error of the first worker that failed, where no member is left.
        """
        self.end_finished()
        for attendant in self.attendants:
            if attendant.finished:
                self._leave(attendant)
            else:
                attendant.start()
        if self.pace is not None:
            places = enumerate(self.attendants)
            self.pace.start({i: each.recorder.position().env_steps for i, each in places if not each.finished})
        while self.running:
            time.sleep(_LOOK_INTERVAL_S if self.pace is None else _PACED_LOOK_INTERVAL_S)
            for place, attendant in enumerate(self.attendants):
                attendant.recorder.check()
                with self.failing_alone(attendant):
                    if not attendant.finished:
                        self._look_at(attendant, place)
                    elif attendant.finished != "failed":
                        attendant.collect_evaluation()  # one that was under way at its end; the others do not wait
            self._keep_pace()
            if self.should_stop():
                for attendant in self.running:
                    with self.failing_alone(attendant):
                        self._end(attendant, "stopped")
            self.save_if_due()
        if not self.should_stop():  # who asks to stop does not wait for episodes to end
            self._collect_evaluations()

    def _collect_evaluations(self) -> None:
        """Wait for evaluations that were under way at a member's end."""
        ended = [attendant for attendant in self.attendants if attendant.finished != "failed"]
        wait_for([each.evaluation for each in ended if each.evaluation is not None], _CALL_DEADLINE_S)
        for attendant in ended:
            with self.failing_alone(attendant):
                attendant.collect_evaluation()
                attendant.give_up_evaluation()

    def _look_at(self, attendant: Attendant, place: int) -> None:
        attendant.check_workers()
        snapshot = attendant.recorder.position()
        attendant.prepare_learner(snapshot)
        if self.pace is not None:
            self.pace.report(place, snapshot.env_steps)
        why = attendant.why_over(snapshot)
        if why:
            self._leave(attendant)
            self._end(attendant, why)
            return
        attendant.collect_evaluation()
        attendant.start_evaluation_if_due(snapshot)
        if self.evolution is not None:
            self.evolution.consider(attendant, snapshot)

    def _keep_pace(self) -> None:
        if self.pace is None:
            return
        self.pace.expire()
        for place, attendant in enumerate(self.attendants):
            if not attendant.finished:
                attendant.hold(not self.pace.may_go_on(place))

    def fail(self, attendant: Attendant, error: Exception) -> None:
        """See `Schedule.fail`; nobody waits for it any longer."""
        self._leave(attendant)
        super().fail(attendant, error)

    def _leave(self, attendant: Attendant) -> None:
        if self.pace is not None:
            self.pace.leave(self.attendants.index(attendant))

    def _end(self, attendant: Attendant, why: str) -> None:
        attendant.stop(why)
        report = wait(attendant.topology.learner.call(Learner.report), _LAST_DEADLINE_S, "the learner's last report")
        attendant.recorder.report(report)
        attendant.report_accounts()


class LockstepSchedule(Schedule):
    """Collect in order, acknowledge, learn, publish; then again. The same calls in the same order every time.

    Members take turns: it is always the turn of the one with the fewest env steps, the first among equals.
    """

    def run(self) -> None:
        """Run until all members are at their end; each attendant knows why.

        Raises:
            the error that ended a member, where no member is left.
        """
        self.end_finished()
        turns = {attendant.number: _Turn(attendant, self.should_stop) for attendant in self.attendants}
        for attendant in self.running:
            with self.failing_alone(attendant):
                turns[attendant.number].evaluate_if_due()  # what a stop interrupted
        while running := self.running:
            turn = min((turns[attendant.number] for attendant in running), key=lambda turn: turn.env_steps)
            attendant = turn.attendant
            with self.failing_alone(attendant):
                why = turn.take()
                if why:
                    turn.report()
                    attendant.stop(why)
                elif self.evolution is not None:
                    self.evolution.consider(attendant, attendant.recorder.position())
            if self.should_stop():
                for other in self.running:
                    with self.failing_alone(other):
                        turns[other.number].report()
                        other.stop("stopped")
            self.save_if_due()


class _Turn:
    """One member's turns: an unroll of each of its actors, and the learner steps that these have earned."""

    def __init__(self, attendant: Attendant, should_stop: Callable[[], bool]):
        self.attendant = attendant
        self._should_stop = should_stop
        self.env_steps = attendant.recorder.position().env_steps
        self._num_steps = 0
        self._reported_at = -math.inf
        self._handed_out_before = self._stats().members[attendant.number].online_handed_out

    def take(self) -> str:
        """Collect, learn, publish; return why the member's run is over, or ""."""
        attendant, recorder = self.attendant, self.attendant.recorder
        topology = attendant.topology
        for actor in topology.actors:
            recorder.report(self._call(actor, Actor.take_turn))
        snapshot = recorder.position()
        attendant.prepare_learner(snapshot)
        due = self._num_steps_due()
        while due > 0:
            num_steps = min(due, _STEPS_PER_CALL)
            self._call(topology.learner, Learner.step, num_steps)
            self._num_steps += num_steps
            due -= num_steps
        if time.monotonic() - self._reported_at >= REPORT_INTERVAL_S:
            self.report()
        self.env_steps = snapshot.env_steps
        why = attendant.why_over(snapshot)
        if not why:
            self.evaluate_if_due()
        return why

    def evaluate_if_due(self) -> None:
        """Evaluate if it is time, unless somebody asks to stop meanwhile."""
        self.attendant.start_evaluation_if_due(self.attendant.recorder.position())
        self.attendant.await_evaluation(_CALL_DEADLINE_S, self._should_stop)

    def report(self) -> None:
        """Let the recorder hear from the learner, and raise what ended a worker."""
        for worker in self.attendant.topology.workers:
            failure = worker.failure()
            if failure is not None:
                raise failure
        self.attendant.recorder.report(self._call(self.attendant.topology.learner, Learner.report))
        self.attendant.look_at_replay(self._stats())
        self._reported_at = time.monotonic()

    def _num_steps_due(self) -> int:
        """Return how many learner steps the replay has experience for; asking for more would wait for ever.

        Counted where it lies, so that unrolls that were rejected, repeated or restored need no accounts of their own.
        """
        config = self.attendant.topology.config
        algorithm, replay, stats = config.algorithm, config.replay, self._stats()
        member = stats.members[self.attendant.number]
        if algorithm.num_drawn and not _is_warm(stats, replay.min_steps):
            return 0
        if self.attendant.topology.member.walks_streams and not stats.num_stored.streams:
            return 0  # no episode has finished yet
        if algorithm.num_online:
            # What was handed out and not learned from waits in the learner's client of several shards.
            waiting = member.online_queued + member.online_handed_out - self._handed_out_before
            return int(waiting // algorithm.num_online) - self._num_steps
        # Replayed experience is never used up: each env step earns its share of it.
        rate = replay.samples_per_insert if math.isfinite(replay.samples_per_insert) else 1.0
        owed: float = (member.inserted_steps - replay.min_steps) * rate - member.sampled_steps
        return max(0, math.ceil(owed / (algorithm.num_replayed * algorithm.rows_per_item(config.unroll_length))))

    def _stats(self) -> ReplayStats:
        return wait(self.attendant.topology.replay.stats(), 60.0, "the replay's statistics")

    def _call(
        self, worker: Worker[C], method: Callable[Concatenate[C, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        config, what = self.attendant.topology.config, f"{worker.name} to finish {method.__name__}"
        return wait_unless_hung(worker.call(method, *arguments, **options), worker, config, _CALL_DEADLINE_S, what)


def _is_warm(stats: ReplayStats, min_steps: int) -> bool:
    """Return whether all members together have inserted so much that every shard lets its experience be drawn."""
    shards = [shard for shard in stats.parts if shard is not None]
    inserted = [sum(member.inserted_steps for member in shard.members.values()) for shard in shards]
    share = -(-min_steps // len(shards))
    return sum(inserted) >= min_steps and all(steps >= share for steps in inserted if steps)
