"""The supervisor of one member: its evaluations, the workers it replaces, the settings it changes, how it ends."""

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
from launch.topology import Topology
from learner.learner import Learner

_CALL_DEADLINE_S = 120.0
_LOOK_INTERVAL_S = 2.0

_EVALUATED_AT = "evaluated_at"


@dataclass(frozen=True)
class Outcome:
    """What became of a member: how far it came, and how its training ended."""

    snapshot: Snapshot
    finished: Ending
    error: Exception | None


class MemberSupervisor:
    """What a schedule does for one member, whatever the order in which it runs them. Used from one thread.

    Args:
        topology: the member's components.
        recorder: knows how far it is.
        videos: where videos of evaluations go, if it makes any.
    """

    def __init__(self, topology: Topology, recorder: Recorder, videos: Path = Path("videos")):
        self.topology = topology
        self._videos = videos
        self._videos_failed = 0
        self.recorder = recorder
        self.finished = Ending.NONE
        """How the member's training ended; `Ending.NONE` while it goes on."""
        self.error: Exception | None = None
        """What ended a member that failed."""
        self._settings = SettingsSchedule.read(topology.config.settings_schedule)
        self._progress = -1.0
        self._is_held = False
        self._seconds = 0.0
        # One that was under way when the run was stopped is due again.
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
        """Pause all of the member's workers for good, and say why."""
        self.finished, self.error = finished, error
        self._seconds = self.recorder.snapshot().seconds
        for worker in self.topology.workers:
            worker.stop()

    @property
    def outcome(self) -> Outcome:
        """What became of the member, once it has been stopped."""
        snapshot = dataclasses.replace(self.recorder.snapshot(), seconds=self._seconds)
        return Outcome(snapshot, self.finished, self.error)

    def hold(self, is_held: bool) -> None:
        """Let the member's actors pause, or go on."""
        if is_held == self._is_held:
            return
        self._is_held = is_held
        for actor in self.topology.actors:
            if is_held:
                actor.stop()
            else:
                actor.start()

    def why_over(self, snapshot: Snapshot) -> Ending:
        """Return how the member's training ends at this point, or `Ending.NONE` if it goes on."""
        config = self.topology.config
        if snapshot.episodes >= 20 and snapshot.mean_return >= config.stop_at_return:
            return Ending.SOLVED
        return Ending.STEPS if snapshot.env_steps >= config.steps else Ending.NONE

    def prepare_learner(self, snapshot: Snapshot) -> None:
        """Tell the learner how far the run is, and the settings that are due by then."""
        learner = self.topology.learner
        progress = min(1.0, snapshot.env_steps / self.topology.config.steps)
        if progress != self._progress:  # of a learner in another process each of these is a call
            self._progress = progress
            told = learner.tell(Learner.set_progress, progress)
            if self.topology.config.takes_turns:  # whose next update must know it
                wait(told, _CALL_DEADLINE_S, f"{learner.name} to hear how far the run is")
        self._sampler_returns.look(snapshot)
        due = self._settings.due(snapshot.env_steps)
        if due:
            wait(
                learner.call(Learner.change_settings, due), _CALL_DEADLINE_S, f"{learner.name} to take its new settings"
            )

    def start_evaluation_if_due(self, snapshot: Snapshot) -> None:
        """Begin an evaluation of the newest published parameters when its interval has passed."""
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
        """The learner has adopted another member's weights."""
        self._sampler_returns.copied(snapshot)

    @property
    def evaluation(self) -> Future[Any] | None:
        """The evaluation under way, or whose result was not collected yet."""
        return self._evaluation

    def collect_evaluation(self) -> None:
        """Report the result of the evaluation if it is there.

        Training does not end because an evaluation did: one whose environment failed or whose evaluator died is counted
        under its reason (a dead evaluator is replaced), and the next comes in time.
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
        """Wait for the evaluation under way, if one is, and report its result (see `collect_evaluation`).

        An evaluator that hangs, or takes longer than `timeout_s`, is replaced. Who asks to stop does not wait: the
        evaluation is due again when the run goes on.

        Raises:
            HungEnvironmentError: it has hung once too often.
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
        """Wait no longer for an evaluation that is under way, if one is; it is counted as late."""
        if self._evaluation is not None:
            self._settle_evaluation()
            self._count_failed("late")

    def _settle_evaluation(self) -> Future[Any]:
        """Take the evaluation under way out of the way, for good."""
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
        """Replace workers that died or hang, as long as the budget lasts.

        Raises:
            the error of the first worker that failed.
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
                self._replace(worker, "shard_lost")  # the next one finds another
            elif failure is not None:
                raise failure
        for worker in (*self.topology.actors, self.topology.evaluator):
            self._replace_hung(worker)

    def report_accounts(self) -> None:
        """Report what was lost with actors and shards; at the end, since some of it may still arrive for a while."""
        stats = wait(self.topology.replay.stats(), _CALL_DEADLINE_S, "the replay's statistics")
        self.look_at_replay(stats)
        self.recorder.report(Report("supervisor", self._accounts.counters()))

    def look_at_replay(self, stats: ReplayStats) -> None:
        """Report what the replay says of itself, and keep it: of a shard that is lost nobody can say it any more."""
        self._accounts.look(stats)
        self.recorder.report(Report("replay", gauges=self._replay_look.gauges(stats, time.monotonic())))

    def _ask_replay(self) -> None:
        """Look at the replay now and then, without waiting for it."""
        if self._look is None and time.monotonic() - self._looked_at >= _LOOK_INTERVAL_S:
            self._look, self._looked_at = self.topology.replay.stats(), time.monotonic()
        elif self._look is not None and self._look.done():
            if self._look.exception() is None:
                self.look_at_replay(self._look.result())
            self._look = None

    def _replace_hung(self, worker: Worker[Any]) -> None:
        """Replace a worker if an environment of its hangs, as long as the budget lasts."""
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
        if worker in self.topology.actors:
            self._accounts.end(self._account_of(worker))
        worker.replace()
        if worker in self.topology.actors and not self._is_held:  # an evaluator does what it is called for
            worker.start()
        self.recorder.start_over(worker.name)
        self._restarts[f"restarts/{why}"] += 1.0
        self.recorder.report(Report("supervisor", dict(self._restarts)))

    def _account_of(self, actor: Worker[Any]) -> Ended:
        member, config = self.topology.member, self.topology.config
        num_incarnations = member.incarnations_per_start
        first = member.first_incarnation + actor.incarnation * num_incarnations
        return Ended(
            config.seed,
            member.first_actor + self.topology.actors.index(actor),
            range(first, first + num_incarnations),
            int(self.recorder.last(actor.name, "unrolls")),
            config.num_envs * config.unroll_length,
        )
