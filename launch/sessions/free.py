"""The free schedule: every part at its own pace, watched from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait as wait_for

from laser.ports import wait
from launch.sessions.attendant import Attendant
from launch.sessions.ending import Ending
from launch.sessions.pace import PaceLimit
from launch.sessions.schedule import CALL_DEADLINE_S, Evolution, Save, Schedule
from learner.learner import Learner

# Between two looks at a freely running population.
_LOOK_INTERVAL_S = 0.1
_PACED_LOOK_INTERVAL_S = 0.02
# Nobody is looked after meanwhile.
_LAST_DEADLINE_S = 120.0


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
                    elif attendant.finished is not Ending.FAILED:
                        attendant.collect_evaluation()  # one that was under way at its end; the others do not wait
            self._keep_pace()
            if self.should_stop():
                for attendant in self.running:
                    with self.failing_alone(attendant):
                        self._end(attendant, Ending.STOPPED)
            self.save_if_due()
        if not self.should_stop():  # who asks to stop does not wait for episodes to end
            self._collect_evaluations()

    def _collect_evaluations(self) -> None:
        """Wait for evaluations that were under way at a member's end."""
        ended = [attendant for attendant in self.attendants if attendant.finished is not Ending.FAILED]
        wait_for([each.evaluation for each in ended if each.evaluation is not None], CALL_DEADLINE_S)
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

    def _end(self, attendant: Attendant, why: Ending) -> None:
        attendant.stop(why)
        report = wait(attendant.topology.learner.call(Learner.report), _LAST_DEADLINE_S, "the learner's last report")
        attendant.recorder.report(report)
        attendant.report_accounts()
