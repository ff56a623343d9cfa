"""The two ways a program runs: freely, everybody at its own pace, or in lockstep, repeatable bit by bit."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any

from laser.environments.base import EnvironmentFailedError
from laser.ports import Parameters, PortClosedError, Report, wait
from launch.errors import LaunchError
from launch.program import MEMBER, Program
from launch.recorder import Recorder, Snapshot
from launch.runtime import Worker, WorkerDiedError

# Between two looks at a freely running program.
_LOOK_INTERVAL_S = 0.1
# A lockstep call contains whole unrolls or updates, the first of them with compilation.
_CALL_DEADLINE_S = 900.0
_REPORT_EVERY_STEPS = 50


class HungEnvironmentError(LaunchError):
    """An environment did not return from a step, more often than its budget allows."""


class Schedule:
    """What both schedules share: when to evaluate, when to save, when to stop.

    Args:
        program: what runs.
        recorder: knows how far it is.
        should_stop: asked between steps, e.g. for signals.
        save: called with the snapshot when a checkpoint is due.
    """

    def __init__(
        self,
        program: Program,
        recorder: Recorder,
        should_stop: Callable[[], bool],
        save: Callable[[Snapshot], None],
    ):
        self.program = program
        self.recorder = recorder
        self.should_stop = should_stop
        self.save = save
        self._saved_at = time.monotonic()
        self._evaluated_at = recorder.snapshot().env_steps
        self._evaluation: Future[Any] | None = None
        self._evaluations_failed = 0
        self._restarts: defaultdict[str, float] = defaultdict(float)

    def finished(self, snapshot: Snapshot) -> str:
        """Return why the run is over ("steps", "solved", "stopped"), or "" if it is not."""
        config = self.program.config
        if self.should_stop():
            return "stopped"
        if snapshot.episodes >= 20 and snapshot.mean_return >= config.stop_at_return:
            return "solved"
        return "steps" if snapshot.env_steps >= config.steps else ""

    def save_if_due(self, snapshot: Snapshot) -> None:
        """Write a checkpoint when its interval has passed."""
        if time.monotonic() - self._saved_at >= self.program.config.learner.checkpoint_interval_s:
            self.save(snapshot)
            self._saved_at = time.monotonic()

    def start_evaluation_if_due(self, snapshot: Snapshot) -> Future[Any] | None:
        """Begin an evaluation of the newest published parameters when its interval has passed."""
        interval = self.program.config.evaluation.interval
        busy = self._evaluation is not None and not self._evaluation.done()
        if not interval or busy or snapshot.env_steps - self._evaluated_at < interval:
            return None
        self._evaluated_at += (snapshot.env_steps - self._evaluated_at) // interval * interval
        parameters = wait(self.program.parameters.newest(-1), 60.0, "the newest parameters")
        assert isinstance(parameters, Parameters)
        at = snapshot.env_steps
        self._evaluation = self.program.evaluator.call(
            "evaluate_report", parameters, self.program.config.evaluation.episodes, at
        )
        return self._evaluation


class FreeSchedule(Schedule):
    """Everybody ticks at its own pace; this only looks on."""

    def run(self) -> str:
        """Run until finished; return why.

        Raises:
            the error of the first worker that failed.
        """
        program = self.program
        program.learner.start()
        for actor in program.actors:
            actor.start()
        while True:
            time.sleep(_LOOK_INTERVAL_S)
            snapshot = self.recorder.snapshot()
            self.recorder.check()
            self._check_workers()
            program.learner.set("progress", min(1.0, snapshot.env_steps / program.config.steps))
            why = self.finished(snapshot)
            if why:
                break
            self._collect_evaluation()
            self.start_evaluation_if_due(snapshot)
            self.save_if_due(snapshot)
        for worker in program.workers:
            worker.stop()
        if self._evaluation is not None and why != "stopped":  # who asks to stop does not wait for episodes to end
            wait_for([self._evaluation], _CALL_DEADLINE_S)
            self._collect_evaluation()
        self.recorder.report(wait(program.learner.call("report"), _CALL_DEADLINE_S, "the learner's last report"))
        return why

    def _collect_evaluation(self) -> None:
        if self._evaluation is None or not self._evaluation.done():
            return
        evaluation, self._evaluation = self._evaluation, None
        # Training does not end because an evaluation did: one whose environment failed is counted, one whose evaluator
        # died is lost (the evaluator is replaced), and the next comes in time.
        error = evaluation.exception()
        if isinstance(error, EnvironmentFailedError):
            self._evaluations_failed += 1
            self.recorder.report(Report("supervisor", {f"evaluations_failed/{error.reason}": self._evaluations_failed}))
        elif not isinstance(error, PortClosedError):
            self.recorder.report(evaluation.result())

    def _check_workers(self) -> None:
        config = self.program.config.environment
        for worker in self.program.workers:
            failure = worker.failure()
            may_die = worker is not self.program.learner and worker.incarnation < config.max_restarts
            if isinstance(failure, WorkerDiedError) and may_die:
                self._replace(worker, "died")
            elif failure is not None:
                raise failure
        for actor in self.program.actors:
            if actor.silent_s("environment") <= config.deadline_s:
                continue
            if actor.incarnation >= config.max_restarts:
                raise HungEnvironmentError(
                    "env",
                    f"{self.program.config.env} did not return from a step for {config.deadline_s:g} s, "
                    f"{actor.incarnation + 1} times",
                    "mend the environment, or raise environment.deadline-s",
                )
            self._replace(actor, "hung")

    def _replace(self, worker: Worker, why: str) -> None:
        worker.replace()
        self.recorder.start_over(worker.name)
        self._restarts[f"restarts/{why}"] += 1.0
        self.recorder.report(Report("supervisor", dict(self._restarts)))


class LockstepSchedule(Schedule):
    """Collect in order, acknowledge, learn, publish; then again. The same calls in the same order every time."""

    def run(self) -> str:
        """Run until finished; return why."""
        program = self.program
        reported = num_steps = 0
        handed_out_before = self._member()["online_handed_out"]
        while True:
            for actor in program.actors:
                self.recorder.report(self._call(actor, "run_unroll"))
                self._call(actor, "settle")
            steps = self.recorder.snapshot().env_steps
            program.learner.set("progress", min(1.0, steps / program.config.steps))
            for _ in range(self._num_steps_due(num_steps, handed_out_before)):
                self._call(program.learner, "step")
                num_steps += 1
                reported += 1
            self._call(program.learner, "settle")
            if reported >= _REPORT_EVERY_STEPS:
                self.recorder.report(self._call(program.learner, "report"))
                reported = 0
            snapshot = self.recorder.snapshot()
            why = self.finished(snapshot)
            if why:
                self.recorder.report(self._call(program.learner, "report"))
                return why
            evaluation = self.start_evaluation_if_due(snapshot)
            if evaluation is not None:
                self.recorder.report(wait(evaluation, _CALL_DEADLINE_S, "an evaluation"))
            self.save_if_due(snapshot)

    def _num_steps_due(self, num_steps: int, handed_out_before: int) -> int:
        """Return how many learner steps the replay has experience for; asking for more would wait for ever.

        Counted where it lies, so that unrolls that were rejected, repeated or restored need no accounts of their own.

        Args:
            num_steps: learner steps since this schedule began.
            handed_out_before: fresh unrolls the replay had handed out by then.
        """
        config = self.program.config
        algorithm, replay, member = config.algorithm, config.replay, self._member()
        if algorithm.num_replayed and member["inserted_steps"] < replay.min_steps:
            return 0
        if algorithm.num_online:
            # What was handed out and not learned from waits in the learner's client of several shards.
            waiting = member["online_queued"] + member["online_handed_out"] - handed_out_before
            return int(waiting // algorithm.num_online) - num_steps
        # Replayed experience is never used up: each env step earns its share of it.
        rate = replay.samples_per_insert if math.isfinite(replay.samples_per_insert) else 1.0
        owed = (member["inserted_steps"] - replay.min_steps) * rate - member["sampled_steps"]
        return max(0, math.ceil(owed / (algorithm.num_replayed * config.unroll_length)))

    def _member(self) -> dict[str, int]:
        stats = wait(self.program.replay.stats(), 60.0, "the replay's statistics")
        member: dict[str, int] = stats["members"][MEMBER]
        return member

    def _call(self, worker: Any, method: str) -> Any:
        return wait(worker.call(method), _CALL_DEADLINE_S, f"{worker.name} to finish {method}")
