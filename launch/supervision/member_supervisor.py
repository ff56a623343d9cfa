"""The member supervisor: one member's evaluations, replaced workers, changes of settings, and ending."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from actors.evaluator import Evaluator, Filmed
from laser.environments.base import EnvironmentFailedError
from laser.ports import PortAwayError, PortClosedError, PortError, PortTimeoutError, Report, wait
from launch.recording.progress import describe_evaluation
from launch.recording.recorder import Recorder, Snapshot
from launch.records.replay_segments import SavedShards
from launch.records.settings_schedule import SettingsSchedule
from launch.records.videos import save_video
from launch.runtimes.hangs import HungEnvironmentError, wait_until_done
from launch.supervision.checkpointing import SavedMember
from launch.supervision.ending import Ending
from launch.supervision.parts import Parts
from launch.supervision.sampler_returns import SamplerReturns, last_multiple
from launch.supervision.start_check import StartCheck
from launch.topology import Topology
from learner.learner import Learner

T = TypeVar("T")

_CALL_DEADLINE_S = 120.0

_EVALUATED_AT = "evaluated_at"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a member: its state at the end, its ending, and what its first updates learned from."""

    snapshot: Snapshot
    finished: Ending
    error: Exception | None
    start: dict[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The ending as text; for a member that was pruned, with its env steps."""
        at = f" at {self.snapshot.env_steps:,} env steps" if self.finished is Ending.PRUNED else ""
        return f"{self.finished}{at}"


class MemberSupervisor:
    """Everything that a schedule of either kind does for one member. Used from one thread.

    Args:
        topology: the member's components.
        recorder: the member's recorder.
        videos: directory for videos of evaluations, if the run makes any.
        newest: reads the member's newest checkpoint; None if there is none.
        say: receives a line about each part that was lost and about each evaluation, for the user.
        note_failure: receives the error that ends the member, at once.
        shares_replay: whether the member shares its replay with others that train at the same time.
        newest_replay: reads the newest checkpoint of a replay that is saved apart from the member; None: it is not.
        meanwhile: called again and again while the member waits for a part that died, which another one may look after.
    """

    def __init__(
        self,
        topology: Topology,
        recorder: Recorder,
        videos: Path = Path("videos"),
        newest: Callable[[], SavedMember | None] = lambda: None,
        say: Callable[[str], None] = lambda line: None,
        note_failure: Callable[[MemberSupervisor], None] = lambda supervisor: None,
        shares_replay: bool = False,
        newest_replay: Callable[[], SavedShards | None] | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ):
        self.topology = topology
        self.parts = Parts(topology, recorder, newest, say, lambda: not self._is_held, newest_replay)
        self._say = say
        self._videos = videos
        self._videos_failed = 0
        self._is_last = False  # whether the evaluation is one of the agent as it ends
        self._num_played = 0  # episodes of evaluations, in a run that learns from a log
        self.recorder = recorder
        self.say = say
        self._note_failure = note_failure
        self._meanwhile = meanwhile
        self.finished = Ending.NONE
        """The ending of the member's training; `Ending.NONE` while it continues."""
        self.error: Exception | None = None
        """The error that ended a failed member."""
        self._start = StartCheck(recorder, topology.config, shares_replay, self._say_named)
        self._settings = SettingsSchedule.read(topology.config.settings_schedule)
        self._progress = -1.0
        self._is_held = False
        self._must_rest = False
        self._seconds = 0.0
        # An evaluation that was running when the run was stopped is due again.
        reached = last_multiple(recorder.snapshot().env_steps, topology.config.evaluation_interval)
        self._evaluated_at = recorder.marks.setdefault(_EVALUATED_AT, reached)
        self._sampler_returns = SamplerReturns(topology, recorder)
        self._evaluation: Future[Any] | None = None
        self._earlier: Future[Any] | None = None  # the one that still runs when the last one is asked for
        self._evaluations_failed: defaultdict[str, float] = defaultdict(float)

    @property
    def number(self) -> int:
        """The member's number."""
        return self.topology.member.number

    def start(self) -> None:
        """Make all of the member's workers tick."""
        if not self.is_recovering:
            self.topology.learner.start()
        for actor in self.topology.actors:
            actor.start()

    def stop(self, finished: Ending, error: Exception | None = None) -> None:
        """Pause all of the member's workers for good, and record the ending."""
        self.finished, self.error = finished, error
        self._seconds = self.recorder.snapshot().seconds
        for worker in self.topology.workers:
            worker.stop()
        if error is not None:
            self.recorder.has_failed = True
            self._note_failure(self)

    @property
    def outcome(self) -> Outcome:
        """The member's outcome, once it has been stopped."""
        snapshot = dataclasses.replace(self.recorder.snapshot(), seconds=self._seconds)
        return Outcome(snapshot, self.finished, self.error, self._start.summary)

    def hold(self, is_held: bool) -> None:
        """Pause the member's actors, or let them continue, unless they rest until a new learner is there."""
        is_held = is_held or self._must_rest
        if is_held == self._is_held:
            return
        self._is_held = is_held
        for actor in self.topology.actors:
            if is_held:
                actor.stop()
            else:
                actor.start()

    @property
    def is_recovering(self) -> bool:
        """Whether a new learner is getting ready in the place of one that died."""
        return self.parts.recovery.is_under_way

    def recovered(self) -> bool:
        """Let a new learner begin if it is ready now, and return whether it is; raise its error if it has one."""
        if not self.parts.recovery.look():
            return False
        self._let_learn()
        return True

    def rest_until_recovered(self) -> None:
        """Pause the actors, which have made enough steps, until the new learner is there."""
        self._must_rest = True
        self.hold(True)

    def despite_deaths(self, action: Callable[[], T]) -> T:
        """Return the result of an action; if a part dies meanwhile, repeat it once another one is there.

        Raises:
            Exception: the error of the action, or of a part that died too often.
        """
        return self.parts.outlast(action, self._let_learn, self._meanwhile)

    def _let_learn(self) -> None:
        """Let a new learner begin, with the settings of now."""
        self._progress = -1.0
        self._settings = SettingsSchedule.read(self.topology.config.settings_schedule)
        if not self.finished:
            self.topology.learner.start()
            self._must_rest = False
            self.hold(False)

    def why_over(self, snapshot: Snapshot) -> Ending:
        """Return the ending of the member's training at this point, or `Ending.NONE` if it continues."""
        config = self.topology.config
        if snapshot.episodes >= 20 and snapshot.mean_return >= config.stop_at_return:
            return Ending.SOLVED
        return Ending.STEPS if snapshot.env_steps >= config.steps else Ending.NONE

    def prepare_learner(self, snapshot: Snapshot) -> None:
        """Pass the run's progress, due changes of settings and returns for the sampler to the learner."""
        self._start.look()
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

    def _say_named(self, line: str) -> None:
        self._say(line if self.topology.member.population == 1 else f"member {self.number}: {line}")

    def start_evaluation_if_due(self, snapshot: Snapshot) -> None:
        """Begin an evaluation of the newest published parameters if its interval has passed."""
        interval = self.topology.config.evaluation_interval
        if not interval or self._is_evaluating or snapshot.env_steps - self._evaluated_at < interval:
            return
        if self._begin_evaluation(snapshot):
            self._evaluated_at += (snapshot.env_steps - self._evaluated_at) // interval * interval
            self._sampler_returns.evaluating()

    def start_last_evaluation(self, snapshot: Snapshot) -> None:
        """Begin an evaluation of the agent as it ends, if it is due, filmed, or all that the agent ever plays."""
        config = self.topology.config
        self.collect_evaluation()  # one that has ended since the last look would be lost
        is_due = 0 < config.evaluation_interval <= snapshot.env_steps - self._evaluated_at
        if not (config.capture_video or config.offline or is_due) or self._is_last:
            return
        running = self._evaluation
        # It stays due: a run that is resumed makes it when one that was never interrupted would.
        self._is_last = self._begin_evaluation(snapshot)
        if self._is_last:
            self._earlier = running

    @property
    def _is_evaluating(self) -> bool:
        return self._evaluation is not None and not self._evaluation.done()

    def _begin_evaluation(self, snapshot: Snapshot) -> bool:
        """Begin an evaluation; return False if the store is away, or has lost what the learner publishes again."""
        config = self.topology.config
        parameters = None
        with suppress(PortAwayError):
            parameters = wait(self.topology.parameters.newest(-1), 60.0, "the newest parameters")
        if parameters is None:
            return False
        evaluator, num_episodes = self.topology.evaluator, config.evaluation.episodes
        report = Evaluator.film_report if config.capture_video else Evaluator.evaluate_report
        statistics = self.topology.statistics.collect()
        self._evaluation = evaluator.call(report, parameters, num_episodes, snapshot.env_steps, statistics)
        return True

    def copied(self, snapshot: Snapshot) -> None:
        """Note that the learner has adopted another member's weights."""
        self._sampler_returns.copied(snapshot)

    @property
    def evaluation(self) -> Future[Any] | None:
        """The newest evaluation, while it is queued, is running or its result is not collected yet."""
        return self._evaluation

    def collect_evaluation(self) -> None:
        """Report the result of the evaluation if it is available.

        Training does not end because an evaluation fails: a failed environment or a dead evaluator is counted by its
        reason (a dead evaluator is replaced), and the next evaluation takes place as usual.
        """
        if self._earlier is not None and self._earlier.done():
            earlier, self._earlier = self._earlier, None
            self._report_result(earlier)
        if self._evaluation is not None and self._evaluation.done():
            self._report_result(self._settle_evaluation())

    def _report_result(self, evaluation: Future[Any]) -> None:
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
            self._replace_hung_evaluator()
        except PortTimeoutError:
            self.parts.replace(evaluator, "late")
            self.give_up_evaluation()
        else:
            if is_done:
                self.collect_evaluation()

    def give_up_evaluation(self) -> None:
        """Give up the running evaluation, if there is one, and count it as late; so is one that waits behind it."""
        if self._earlier is not None:
            self._earlier = None
            self._count_failed("late")
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
        if self.topology.config.offline:  # nobody else plays, so these are the agent's returns
            self._num_played += len(report.episodes)
            self.recorder.report(Report("evaluator", {"episodes": self._num_played}, episodes=report.episodes))
        if not self._is_last:  # nothing is drawn any more
            self._sampler_returns.evaluated(report)
        if self.topology.member.population == 1:  # the lines of many members would leave no room for the sweep's own
            self._say(describe_evaluation(report))
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
        """Replace parts that died or hang, as often as their budgets allow.

        Raises:
            Exception: the error of the first part that failed otherwise or too often.
        """
        self.parts.check()
        for actor in self.topology.actors:
            self.parts.replace_hung(actor)
        self._replace_hung_evaluator()

    def end_accounts(self) -> None:
        """Settle what is under way in the stopped member, and report its accounts for the last time."""
        self._start.look()
        self.parts.replay.settle()

    def account_for_saved_replay(self) -> None:
        """Look at the replay that was just saved: a shard begins again only with a part that is accounted for."""
        config = self.topology.config
        if self.topology.owns_replay and config.outlasts_deaths and config.checkpoint_replay:
            self.parts.replay.look_now()

    def own_replay(self, before: MemberSupervisor) -> None:
        """Look after the shards of a shared replay from now on; the member that owned them before has ended."""
        self.topology.owns_replay = True
        self.parts.replay.take_over(before.parts.replay)

    def watch_replay(self) -> None:
        """Let shards that died begin again, which other members use after this one has ended; they meet its errors."""
        with suppress(PortError):
            self.parts.replay.watch()

    def _replace_hung_evaluator(self) -> None:
        if self.parts.replace_hung(self.topology.evaluator) and self._evaluation is not None:
            self._settle_evaluation()
            self._count_failed("hung")
