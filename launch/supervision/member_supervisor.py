"""The member supervisor: one member's evaluations, replaced workers, changes of settings, and ending."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.evaluator import Evaluator, Filmed
from laser.environments.base import EnvironmentFailedError
from laser.ports import Parameters, PortClosedError, PortTimeoutError, Report, wait
from laser.replay_stats import ReplayStats
from launch.recording.accounts import Accounts, Ended
from launch.recording.recorder import Recorder, Snapshot
from launch.recording.replay_gauges import ReplayGauges
from launch.records.settings_schedule import SettingsSchedule
from launch.records.videos import save_video
from launch.runtimes.hangs import HungEnvironmentError, hung_error, hung_in, wait_until_done
from launch.runtimes.runtime import Worker, WorkerDiedError
from launch.supervision.ending import Ending
from launch.supervision.sampler_returns import SamplerReturns, last_multiple
from launch.supervision.settling import settle
from launch.topology import Topology
from learner.learner import Learner

_CALL_DEADLINE_S = 120.0
_LOOK_INTERVAL_S = 2.0

_EVALUATED_AT = "evaluated_at"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a member: its state at the end, and its ending."""

    snapshot: Snapshot
    finished: Ending
    error: Exception | None


class MemberSupervisor:
    """Everything that a schedule of either kind does for one member. Used from one thread.

    Args:
        topology: the member's components.
        recorder: the member's recorder.
        videos: directory for videos of evaluations, if the run makes any.
    """

    def __init__(self, topology: Topology, recorder: Recorder, videos: Path = Path("videos")):
        self.topology = topology
        self._videos = videos
        self._videos_failed = 0
        self.recorder = recorder
        self.finished = Ending.NONE
        """The ending of the member's training; `Ending.NONE` while it continues."""
        self.error: Exception | None = None
        """The error that ended a failed member."""
        self._settings = SettingsSchedule.read(topology.config.settings_schedule)
        self._progress = -1.0
        self._is_held = False
        self._seconds = 0.0
        # An evaluation that was running when the run was stopped is due again.
        reached = last_multiple(recorder.snapshot().env_steps, topology.config.evaluation_interval)
        self._evaluated_at = recorder.marks.setdefault(_EVALUATED_AT, reached)
        self._sampler_returns = SamplerReturns(topology, recorder)
        self._evaluation: Future[Any] | None = None
        self._evaluations_failed: defaultdict[str, float] = defaultdict(float)
        self._restarts: defaultdict[str, float] = defaultdict(float)
        self._accounts = Accounts()
        self._replay_look = ReplayGauges(topology.member.number)
        self._look: Future[Any] | None = None
        self._looked_at = 0.0

    @property
    def number(self) -> int:
        """The member's number."""
        return self.topology.member.number

    def start(self) -> None:
        """Make all of the member's workers tick."""
        self.topology.learner.start()
        for actor in self.topology.actors:
            actor.start()

    def stop(self, finished: Ending, error: Exception | None = None) -> None:
        """Pause all of the member's workers for good, and record the ending."""
        self.finished, self.error = finished, error
        self._seconds = self.recorder.snapshot().seconds
        for worker in self.topology.workers:
            worker.stop()

    @property
    def outcome(self) -> Outcome:
        """The member's outcome, once it has been stopped."""
        snapshot = dataclasses.replace(self.recorder.snapshot(), seconds=self._seconds)
        return Outcome(snapshot, self.finished, self.error)

    def hold(self, is_held: bool) -> None:
        """Pause the member's actors, or let them continue."""
        if is_held == self._is_held:
            return
        self._is_held = is_held
        for actor in self.topology.actors:
            if is_held:
                actor.stop()
            else:
                actor.start()

    def why_over(self, snapshot: Snapshot) -> Ending:
        """Return the ending of the member's training at this point, or `Ending.NONE` if it continues."""
        config = self.topology.config
        if snapshot.episodes >= 20 and snapshot.mean_return >= config.stop_at_return:
            return Ending.SOLVED
        return Ending.STEPS if snapshot.env_steps >= config.steps else Ending.NONE

    def prepare_learner(self, snapshot: Snapshot) -> None:
        """Pass the run's progress, due changes of settings and returns for the sampler to the learner."""
        learner = self.topology.learner
        progress = min(1.0, snapshot.env_steps / self.topology.config.steps)
        if progress != self._progress:  # each is a call if the learner is in another process
            self._progress = progress
            delivered = learner.tell(Learner.set_progress, progress)
            if self.topology.config.takes_turns:  # in lockstep the next update must use it
                wait(delivered, _CALL_DEADLINE_S, f"{learner.name} to receive the run's progress")
        self._sampler_returns.look(snapshot)
        due = self._settings.due(snapshot.env_steps)
        if due:
            wait(
                learner.call(Learner.change_settings, due), _CALL_DEADLINE_S, f"{learner.name} to take its new settings"
            )

    def start_evaluation_if_due(self, snapshot: Snapshot) -> None:
        """Begin an evaluation of the newest published parameters if its interval has passed."""
        config = self.topology.config
        interval = config.evaluation_interval
        busy = self._evaluation is not None and not self._evaluation.done()
        if not interval or busy or snapshot.env_steps - self._evaluated_at < interval:
            return
        self._evaluated_at += (snapshot.env_steps - self._evaluated_at) // interval * interval
        parameters = wait(self.topology.parameters.newest(-1), 60.0, "the newest parameters")
        assert isinstance(parameters, Parameters)
        self._sampler_returns.evaluating()
        evaluator, num_episodes = self.topology.evaluator, config.evaluation.episodes
        if config.capture_video:
            self._evaluation = evaluator.call(Evaluator.film_report, parameters, num_episodes, snapshot.env_steps)
        else:
            self._evaluation = evaluator.call(Evaluator.evaluate_report, parameters, num_episodes, snapshot.env_steps)

    def copied(self, snapshot: Snapshot) -> None:
        """Note that the learner has adopted another member's weights."""
        self._sampler_returns.copied(snapshot)

    @property
    def evaluation(self) -> Future[Any] | None:
        """The evaluation that is running or whose result is not collected yet."""
        return self._evaluation

    def collect_evaluation(self) -> None:
        """Report the result of the evaluation if it is available.

        Training does not end because an evaluation fails: a failed environment or a dead evaluator is counted by its
        reason (a dead evaluator is replaced), and the next evaluation takes place as usual.
        """
        if self._evaluation is None or not self._evaluation.done():
            return
        evaluation = self._settle_evaluation()
        error = evaluation.exception()
        if isinstance(error, EnvironmentFailedError):
            self._count_failed(error.reason)
        elif isinstance(error, PortClosedError):
            self._count_failed("evaluator_died")
        else:
            self._keep(evaluation.result())

    def await_evaluation(self, timeout_s: float, should_stop: Callable[[], bool]) -> None:
        """Wait for the running evaluation, if there is one, and report its result (see `collect_evaluation`).

        An evaluator that hangs or takes longer than `timeout_s` is replaced. A requested stop ends the wait, and the
        evaluation is due again when the run is resumed.

        Raises:
            HungEnvironmentError: an environment of the evaluator has hung once too often.
        """
        if self._evaluation is None:
            return
        evaluator, config = self.topology.evaluator, self.topology.config
        try:
            is_done = wait_until_done(self._evaluation, evaluator, config, timeout_s, "an evaluation", should_stop)
        except HungEnvironmentError:
            self._replace_hung(evaluator)
        except PortTimeoutError:
            self._replace(evaluator, "late")
            self.give_up_evaluation()
        else:
            if is_done:
                self.collect_evaluation()

    def give_up_evaluation(self) -> None:
        """Give up the running evaluation, if there is one, and count it as late."""
        if self._evaluation is not None:
            self._settle_evaluation()
            self._count_failed("late")

    def _settle_evaluation(self) -> Future[Any]:
        """Return the running evaluation and mark it as done for good."""
        assert self._evaluation is not None
        evaluation, self._evaluation = self._evaluation, None
        self.recorder.marks[_EVALUATED_AT] = self._evaluated_at
        return evaluation

    def _count_failed(self, reason: str) -> None:
        self._evaluations_failed[reason] += 1
        self.recorder.report(Report("supervisor", {f"evaluations_failed/{reason}": self._evaluations_failed[reason]}))

    def _keep(self, result: Report | Filmed) -> None:
        report = result.report if isinstance(result, Filmed) else result
        self.recorder.report(report)
        self._sampler_returns.evaluated(report)
        if not isinstance(result, Filmed):
            return
        if result.video is None:
            self._videos_failed += 1
            self.recorder.report(Report("supervisor", {"videos_failed": self._videos_failed}))
            return
        at = report.at_env_steps or 0
        path = self._videos / f"evaluation-{at:09d}.mp4"
        save_video(path, result.video)
        self.recorder.video(at, path)

    def check_workers(self) -> None:
        """Replace workers that died or hang, at most `max_restarts` times each.

        Raises:
            Exception: the error of the first worker that failed otherwise or too often.
        """
        config = self.topology.config.environment
        is_cluster = bool(self.topology.config.ray_address)
        self._ask_replay()
        for worker in self.topology.workers:
            failure = worker.failure()
            may_die = worker is not self.topology.learner and worker.incarnation < config.max_restarts
            if isinstance(failure, WorkerDiedError) and may_die:
                self._replace(worker, "died")
            elif isinstance(failure, PortClosedError) and may_die and is_cluster and len(self.topology.shards) > 1:
                self._replace(worker, "shard_lost")  # the new worker finds another shard
            elif failure is not None:
                if isinstance(failure, WorkerDiedError):
                    self._end_account(worker, "died")
                raise failure
        for worker in (*self.topology.actors, self.topology.evaluator):
            self._replace_hung(worker)

    def end_accounts(self) -> None:
        """Settle what is under way in the stopped member, and report its accounts for the last time."""
        for actor in settle(self.topology):
            self._end_account(actor, "stopped")
        self.report_accounts()

    def report_accounts(self) -> None:
        """Report the unrolls lost with actors and shards; call it at the end, since some may still arrive before."""
        try:
            self.look_at_replay(wait(self.topology.replay.stats(), _CALL_DEADLINE_S, "the replay's statistics"))
        except PortClosedError:
            self._accounts.lose_all_shards()
        self.recorder.report(Report("supervisor", self._accounts.counters()))

    def look_at_replay(self, stats: ReplayStats) -> None:
        """Report the replay's statistics, and keep them for the time when a shard is lost."""
        self._accounts.look(stats)
        self.recorder.report(Report("replay", gauges=self._replay_look.gauges(stats, time.monotonic())))

    def _ask_replay(self) -> None:
        """Read the replay's statistics every few seconds, without waiting for them."""
        if self._look is None and time.monotonic() - self._looked_at >= _LOOK_INTERVAL_S:
            self._look, self._looked_at = self.topology.replay.stats(), time.monotonic()
        elif self._look is not None and self._look.done():
            if self._look.exception() is None:
                self.look_at_replay(self._look.result())
            self._look = None

    def _replace_hung(self, worker: Worker[Any]) -> None:
        """Replace a worker if one of its environments hangs, at most `max_restarts` times."""
        config = self.topology.config
        hung = hung_in(worker, config)
        if not hung:
            return
        if worker.incarnation >= config.environment.max_restarts:
            raise hung_error(config, hung, worker.incarnation + 1)
        self._replace(worker, "hung")
        if worker is self.topology.evaluator and self._evaluation is not None:
            self._settle_evaluation()
            self._count_failed("hung")

    def _replace(self, worker: Worker[Any], why: str) -> None:
        self._end_account(worker, "died")
        worker.replace()
        if worker in self.topology.actors and not self._is_held:  # an evaluator does not tick, it is only called
            worker.start()
        self.recorder.start_over(worker.name)
        self._restarts[f"restarts/{why}"] += 1.0
        self.recorder.report(Report("supervisor", dict(self._restarts)))

    def _end_account(self, worker: Worker[Any], reason: str) -> None:
        if worker in self.topology.actors:
            self._accounts.end(self._account_of(worker, reason))

    def _account_of(self, actor: Worker[Any], reason: str) -> Ended:
        member, config = self.topology.member, self.topology.config
        num_incarnations = member.incarnations_per_start
        first = member.first_incarnation + actor.incarnation * num_incarnations
        return Ended(
            config.seed,
            member.first_actor + self.topology.actors.index(actor),
            range(first, first + num_incarnations),
            int(self.recorder.last(actor.name, "unrolls")),
            config.num_envs * config.unroll_length,
            reason,
        )
