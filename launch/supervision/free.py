"""The free schedule: every worker runs at its own pace, under supervision."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait as wait_for

from laser.ports import wait
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.pace import PaceLimit
from launch.supervision.parts import explains
from launch.supervision.schedule import CALL_DEADLINE_S, Evolution, Pruner, Save, SaveReplay, Schedule, Waiting
from learner.learner import Learner

# Seconds between two checks of a population.
_LOOK_INTERVAL_S = 0.1
_PACED_LOOK_INTERVAL_S = 0.02
# No member is supervised during this call.
_LAST_DEADLINE_S = 120.0


class FreeSchedule(Schedule):
    """All workers tick at their own pace; the schedule checks them and holds back members that are too far ahead.

    Args:
        supervisors: see `Schedule`.
        should_stop: see `Schedule`.
        save: see `Schedule`.
        evolution: see `Schedule`.
        waiting: see `Schedule`.
        look: see `Schedule`.
        pruner: see `Schedule`.
        save_replay: see `Schedule`.
        pace: limit on the members' pace, by their place among the supervisors; None: no limit.
    """

    def __init__(
        self,
        supervisors: Sequence[MemberSupervisor],
        should_stop: Callable[[], bool],
        save: Save,
        evolution: Evolution | None = None,
        waiting: Waiting | None = None,
        look: Callable[[], None] = lambda: None,
        pruner: Pruner | None = None,
        save_replay: SaveReplay = lambda supervisors: None,
        pace: PaceLimit | None = None,
    ):
        super().__init__(supervisors, should_stop, save, evolution, waiting, look, pruner, save_replay)
        self.pace = pace
        self._unsettled: list[MemberSupervisor] = []

    def run(self) -> None:
        """Run until all members have ended; each supervisor's `finished` is its ending.

        Raises:
            Exception: the error of the first worker that failed, if no member is left.
        """
        self.end_finished(self.running)
        for supervisor in self.supervisors:
            if supervisor.finished:
                self._leave(supervisor)
            else:
                supervisor.start()
        if self.pace is not None:
            places = enumerate(self.supervisors)
            self.pace.start({i: each.recorder.position().env_steps for i, each in places if not each.finished})
        stops = False
        while self.running or (self.has_waiting and not stops):
            time.sleep(_LOOK_INTERVAL_S if self.pace is None else _PACED_LOOK_INTERVAL_S)
            for place, supervisor in enumerate(self.supervisors):
                supervisor.recorder.check()
                with self.failing_alone(supervisor):
                    if not supervisor.finished:
                        self._look_at(supervisor, place)
                        continue
                    if supervisor.finished is not Ending.FAILED:
                        supervisor.collect_evaluation()  # one still running at the member's end; others do not wait
                    if self.running:
                        supervisor.watch_replay()
            self._keep_pace()
            self.look()
            stops = self.should_stop()
            for supervisor in self.fill_places(stops, wait=False):
                supervisor.start()
            if stops:
                for supervisor in self.running:
                    with self.failing_alone(supervisor):
                        self._end(supervisor, Ending.STOPPED)
            self.save_if_due()
        for supervisor in self._unsettled:
            with self.failing_alone(supervisor):
                supervisor.end_accounts()
        if not stops:  # a stop must not wait for episodes to end
            self._collect_evaluations()

    def _collect_evaluations(self) -> None:
        """Wait for evaluations that were still running at a member's end."""
        ended = [supervisor for supervisor in self.supervisors if supervisor.finished is not Ending.FAILED]
        wait_for([each.evaluation for each in ended if each.evaluation is not None], CALL_DEADLINE_S)
        for supervisor in ended:
            with self.failing_alone(supervisor):
                supervisor.collect_evaluation()
                supervisor.give_up_evaluation()

    def _look_at(self, supervisor: MemberSupervisor, place: int) -> None:
        supervisor.check_workers()
        snapshot = supervisor.recorder.position()
        if self.pace is not None:
            self.pace.report(place, snapshot.env_steps)
        if supervisor.is_recovering and not self._has_recovered(supervisor):
            if supervisor.why_over(snapshot):
                supervisor.rest_until_recovered()
            return
        supervisor.prepare_learner(snapshot)
        why = self.judged(supervisor, supervisor.why_over(snapshot))
        if why:
            self._leave(supervisor)
            supervisor.start_last_evaluation(snapshot)
            self._end(supervisor, why)
            return
        supervisor.collect_evaluation()
        supervisor.start_evaluation_if_due(snapshot)
        if self.evolution is not None and not any(map(self.is_recovering, self.supervisors)):
            self.evolution.consider(supervisor, snapshot)

    def _has_recovered(self, supervisor: MemberSupervisor) -> bool:
        """Return whether a member's new learner is ready now, with the settings of its population."""
        if not supervisor.recovered():
            return False
        if self.evolution is not None:
            self.evolution.recovered(supervisor)
        return True

    def is_recovering(self, supervisor: MemberSupervisor) -> bool:
        """See `Schedule.is_recovering`."""
        return supervisor.is_recovering

    def outlasts(self, error: Exception) -> bool:
        """See `Schedule.outlasts`; members of a population may meet the death of another one's learner."""
        return explains([each.parts for each in self.running], error)

    def _keep_pace(self) -> None:
        if self.pace is None:
            return
        self.pace.expire()
        for place, supervisor in enumerate(self.supervisors):
            if not supervisor.finished:
                supervisor.hold(not self.pace.may_go_on(place))

    def fail(self, supervisor: MemberSupervisor, error: Exception) -> None:
        """See `Schedule.fail`; other members no longer wait for this one."""
        self._leave(supervisor)
        super().fail(supervisor, error)

    def _leave(self, supervisor: MemberSupervisor) -> None:
        if self.pace is not None:
            self.pace.leave(self.supervisors.index(supervisor))

    def _end(self, supervisor: MemberSupervisor, why: Ending) -> None:
        supervisor.stop(why)
        learner = supervisor.topology.learner
        report = supervisor.despite_deaths(
            lambda: wait(learner.call(Learner.report), _LAST_DEADLINE_S, "the learner's last report")
        )
        supervisor.recorder.report(report)
        if self.waiting is None:
            self._unsettled.append(supervisor)  # later: meanwhile nobody would see how far the others are
        else:
            supervisor.end_accounts()
