"""The lockstep schedule: parts take turns, repeatable bit by bit, over either runtime."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from actors.actor import Actor
from laser.ports import wait
from laser.replay_stats import ReplayStats
from launch.runtimes.hangs import wait_unless_hung
from launch.runtimes.runtime import Worker
from launch.sessions.attendant import Attendant
from launch.sessions.ending import Ending
from launch.sessions.schedule import CALL_DEADLINE_S, Schedule
from learner.learner import REPORT_INTERVAL_S, Learner

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")

# Each call wakes two threads, which small agents' steps would feel; a large one's calls are to keep their deadline.
_STEPS_PER_CALL = 16


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
                        other.stop(Ending.STOPPED)
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

    def take(self) -> Ending:
        """Collect, learn, publish; return how the member's training ends here, or `Ending.NONE`."""
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
        self.attendant.await_evaluation(CALL_DEADLINE_S, self._should_stop)

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
        return wait_unless_hung(worker.call(method, *arguments, **options), worker, config, CALL_DEADLINE_S, what)


def _is_warm(stats: ReplayStats, min_steps: int) -> bool:
    """Return whether all members together have inserted so much that every shard lets its experience be drawn."""
    shards = [shard for shard in stats.parts if shard is not None]
    inserted = [sum(member.inserted_steps for member in shard.members.values()) for shard in shards]
    share = -(-min_steps // len(shards))
    return sum(inserted) >= min_steps and all(steps >= share for steps in inserted if steps)
