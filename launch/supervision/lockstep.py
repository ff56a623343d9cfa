"""The lockstep schedule: workers take turns, repeatable bit by bit, on either runtime."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from actors.actor import Actor
from laser.ports import wait
from laser.replay_stats import ReplayStats
from launch.recording.recorder import Snapshot
from launch.runtimes.hangs import wait_unless_hung
from launch.runtimes.runtime import Worker
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.schedule import CALL_DEADLINE_S, Schedule
from learner.learner import REPORT_INTERVAL_S, Learner

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")

# Each call wakes two threads, which would slow the steps of small agents; large agents must keep the deadline.
_UPDATES_PER_CALL = 16


class LockstepSchedule(Schedule):
    """Repeats: collect in order, acknowledge, learn, publish. Every run makes the same calls in the same order.

    Members take turns: the next turn is that of the member with the fewest env steps, the first among equals. A member
    that had to wait for its place takes turns with the others as if it had begun with the slowest of them.
    """

    def run(self) -> None:
        """Run until all members have ended; each supervisor's `finished` is its ending.

        Raises:
            Exception: the error that ended a member, if no member is left.
        """
        self.end_finished(self.running)
        turns = {supervisor.number: _Turn(supervisor, self.should_stop) for supervisor in self.supervisors}
        for supervisor in self.running:
            with self.failing_alone(supervisor):
                turns[supervisor.number].go_on()
        stops = False
        while self.running or (self.has_waiting and not stops):
            running = [turns[supervisor.number] for supervisor in self.running]
            if running:
                self._take(min(running, key=lambda turn: turn.position))
            self.look()
            stops = self.should_stop()
            if stops:
                for other in self.running:
                    with self.failing_alone(other):
                        turns[other.number].end(Ending.STOPPED)
            self.save_if_due()
            for other in self.fill_places(stops, wait=True):
                turns = {number: turn for number, turn in turns.items() if turn.supervisor in self.supervisors}
                with self.failing_alone(other):
                    turns[other.number] = _Turn(other, self.should_stop)
                    turns[other.number].join(running)
                    turns[other.number].go_on()

    def _take(self, turn: _Turn) -> None:
        supervisor = turn.supervisor
        with self.failing_alone(supervisor):
            why = self.judged(supervisor, turn.take())
            if why:
                turn.evaluate_last()
                turn.end(why)
            elif self.evolution is not None:
                self.evolution.consider(supervisor, supervisor.recorder.position())


class _Turn:
    """One member's turns: an unroll from each of its actors, and the learner steps that are then due."""

    def __init__(self, supervisor: MemberSupervisor, should_stop: Callable[[], bool]):
        self.supervisor = supervisor
        self._should_stop = should_stop
        self.env_steps = supervisor.recorder.position().env_steps
        self._ahead = 0
        self._num_updates = 0
        self._reported_at = -math.inf
        self._handed_out_before = self._stats().members[supervisor.number].online_handed_out

    @property
    def position(self) -> int:
        """The env steps by which members take turns."""
        return self.env_steps + self._ahead

    def join(self, others: Sequence[_Turn]) -> None:
        """Take turns with these members from now on."""
        self._ahead = min((other.position for other in others), default=self.env_steps) - self.env_steps

    def take(self) -> Ending:
        """Collect, learn and publish; return the ending of the member's training, or `Ending.NONE`."""
        supervisor, recorder = self.supervisor, self.supervisor.recorder
        for actor in supervisor.topology.actors:
            recorder.report(self._call(actor, Actor.take_turn))
        snapshot = recorder.position()
        self.learn(snapshot)
        if time.monotonic() - self._reported_at >= REPORT_INTERVAL_S:
            self.report()
        self.env_steps = snapshot.env_steps
        why = supervisor.why_over(snapshot)
        if not why:
            self.evaluate_if_due()
        return why

    def go_on(self) -> None:
        """Do what a stop left out: the rest of the updates, and then the evaluation."""
        self.learn(self.supervisor.recorder.position())
        self.evaluate_if_due()

    def learn(self, snapshot: Snapshot) -> None:
        """Make the updates that are due; a stop leaves out the rest, which a resumed run makes before all else.

        Fresh unrolls are used up in any case: a learner may hold some that no account tells of.
        """
        topology = self.supervisor.topology
        self.supervisor.prepare_learner(snapshot)
        due = self._num_updates_due()
        while due > 0:
            num_updates = min(due, _UPDATES_PER_CALL)
            self._call(topology.learner, Learner.step, num_updates)
            self._num_updates += num_updates
            due -= num_updates
            if time.monotonic() - self._reported_at >= REPORT_INTERVAL_S:
                self.report()  # thousands of updates may follow a long unroll
            if not topology.config.algorithm.num_online and self._should_stop():
                break

    def evaluate_if_due(self) -> None:
        """Evaluate if an evaluation is due, unless a stop is requested meanwhile."""
        self.supervisor.start_evaluation_if_due(self.supervisor.recorder.position())
        self.supervisor.await_evaluation(CALL_DEADLINE_S, self._should_stop)

    def evaluate_last(self) -> None:
        """Evaluate the agent as it ends; see `MemberSupervisor.start_last_evaluation`."""
        self.supervisor.start_last_evaluation(self.supervisor.recorder.position())
        self.supervisor.await_evaluation(CALL_DEADLINE_S, self._should_stop)

    def end(self, why: Ending) -> None:
        """End the member's training with its last report and its accounts."""
        self.report()
        self.supervisor.stop(why)
        self.supervisor.end_accounts()

    def report(self) -> None:
        """Pass the learner's report and the replay's statistics to the recorder; raise the error of a failed worker."""
        for worker in self.supervisor.topology.workers:
            failure = worker.failure()
            if failure is not None:
                raise failure
        self.supervisor.recorder.report(self._call(self.supervisor.topology.learner, Learner.report))
        self.supervisor.parts.replay.look_at(self._stats())
        self._reported_at = time.monotonic()

    def _num_updates_due(self) -> int:
        """Return the number of learner steps for which the replay has experience; more would wait for ever.

        The replay's own counts decide, so that rejected, repeated or restored unrolls need no separate counting.
        """
        config = self.supervisor.topology.config
        algorithm, replay, stats = config.algorithm, config.replay, self._stats()
        member = stats.members[self.supervisor.number]
        if algorithm.num_drawn and not _is_warm(stats, replay.min_steps):
            return 0
        if self.supervisor.topology.member.walks_streams and not stats.num_stored.streams:
            return 0  # no episode has finished yet
        if algorithm.num_online:
            # Unrolls that were handed out but not learned from wait in the learner's client of several shards.
            waiting = member.online_queued + member.online_handed_out - self._handed_out_before
            return int(waiting // algorithm.num_online) - self._num_updates
        # Replayed experience is never used up: each env step adds its share of updates.
        rate = replay.samples_per_insert if math.isfinite(replay.samples_per_insert) else 1.0
        owed: float = (member.inserted_steps - replay.min_steps) * rate - member.sampled_steps
        return max(0, math.ceil(owed / (algorithm.num_replayed * algorithm.rows_per_item(config.unroll_length))))

    def _stats(self) -> ReplayStats:
        return wait(self.supervisor.topology.replay.stats(), 60.0, "the replay's statistics")

    def _call(
        self, worker: Worker[C], method: Callable[Concatenate[C, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        config, what = self.supervisor.topology.config, f"{worker.name} to finish {method.__name__}"
        return wait_unless_hung(worker.call(method, *arguments, **options), worker, config, CALL_DEADLINE_S, what)


def _is_warm(stats: ReplayStats, min_steps: int) -> bool:
    """Return whether all members together have inserted enough that every shard allows draws."""
    shards = [shard for shard in stats.parts if shard is not None]
    inserted = [sum(member.inserted_steps for member in shard.members.values()) for shard in shards]
    share = -(-min_steps // len(shards))
    return sum(inserted) >= min_steps and all(steps >= share for steps in inserted if steps)
