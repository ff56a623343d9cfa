"""The parts of a member that may die, and the replacement of those that did."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from laser.ports import NoPlaceError, PortAwayError, PortClosedError, Report
from launch.recording.recorder import Recorder
from launch.records.replay_segments import SavedShards
from launch.runtimes.hangs import hung_error, hung_in
from launch.runtimes.runtime import NotPlacedError, Worker, WorkerDiedError
from launch.supervision.budgets import Budgets
from launch.supervision.checkpointing import SavedMember
from launch.supervision.learner_recovery import START_DEADLINE_S, LearnerRecovery
from launch.supervision.replay_watch import ReplayWatch
from launch.supervision.restart_watch import RestartWatch
from launch.topology import Topology
from learner.learner import Learner

T = TypeVar("T")

# A call of a dead process may fail before its status does.
_NOTICE_S, _NOTICE_INTERVAL_S = 5.0, 0.05


class Parts:
    """Replaces the workers, the store and the shards of a member that die or hang. Used from one thread.

    In lockstep, which would not repeat bit by bit, a death ends the run.

    Args:
        topology: the member's components.
        recorder: the member's recorder.
        newest: reads the member's newest checkpoint; None if there is none.
        say: receives a line about each learner, store and shard that died, for the user.
        may_act: returns whether a new actor may begin at once.
        newest_replay: reads the newest checkpoint of a replay that is saved apart from the member; None: it is not.
    """

    def __init__(
        self,
        topology: Topology,
        recorder: Recorder,
        newest: Callable[[], SavedMember | None],
        say: Callable[[str], None],
        may_act: Callable[[], bool],
        newest_replay: Callable[[], SavedShards | None] | None = None,
    ):
        self._topology, self._recorder, self._say, self._may_act = topology, recorder, say, may_act
        self._budgets = Budgets(topology.config, recorder)
        self._restarts: defaultdict[str, float] = defaultdict(float)
        self.recovery = LearnerRecovery(topology, recorder, newest, say)
        self.replay = ReplayWatch(topology, recorder, self._budgets, newest_replay or newest, self._note_lost, say)
        self._store = RestartWatch(
            "the parameter store",
            topology.parameters.newest_version,
            topology.parameters.begin_again,
            lambda: self._budgets.may_die("store"),
            self._store_begun,
        )

    @property
    def has_lost_learner(self) -> bool:
        """Whether the learner has died; the next check replaces it, or raises its error."""
        return isinstance(self._topology.learner.failure(), WorkerDiedError)

    def check(self) -> None:
        """Replace parts that died, as often as their budgets allow.

        Raises:
            Exception: the error of the first part that failed otherwise or too often.
        """
        topology, config = self._topology, self._topology.config
        self.replay.ask()
        self.look_at_served()
        for worker in topology.workers:
            failure = worker.failure()
            if failure is None:
                continue
            if isinstance(failure, NotPlacedError) and worker is not topology.learner:
                self._start_another(worker)  # no new death; it goes elsewhere once Ray knows that the node is lost
                continue
            has_died = isinstance(failure, WorkerDiedError)
            has_lost_shard = isinstance(failure, PortClosedError) and config.outlasts_deaths
            if has_died and worker is topology.learner:
                self.replace_dead_learner()
            elif has_died and self._budgets.may_die(worker.name):
                self.replace(worker, "died")
            elif has_lost_shard and worker in topology.actors and self._budgets.may_die(f"shard of {worker.name}"):
                self.replace(worker, "shard_lost")  # the new actor finds another shard, or the same one begun again
            else:
                if has_died:
                    self._end_account(worker)
                raise failure
        if config.outlasts_deaths and not self.recovery.is_under_way:
            self.recovery.back_up()

    def look_at_served(self) -> None:
        """Let the store and the shards that died begin again, as often as their budgets allow."""
        if self._topology.config.outlasts_deaths:
            self._store.look()
            self.replay.watch()

    def replace_dead_learner(self) -> None:
        """Put another learner in the place of a dead one; raise its error if it died too often."""
        learner = self._topology.learner
        failure = learner.failure()
        if not isinstance(failure, WorkerDiedError):
            return
        if self.recovery.waits_for_place:
            return
        if isinstance(failure, NotPlacedError):
            self.recovery.begin_elsewhere()
            return
        if self._topology.config.takes_turns or not self._budgets.may_die(learner.name):
            raise failure
        self.recovery.begin()
        self._count_restart("learner_died")

    def replace_hung(self, worker: Worker[Any]) -> bool:
        """Replace a worker if one of its environments hangs, and return whether one does.

        Raises:
            HungEnvironmentError: it hung too often.
        """
        config = self._topology.config
        hung = hung_in(worker, config)
        if not hung:
            return False
        if not self._budgets.may_hang(worker.name):
            raise hung_error(config, hung, self._budgets.num_hung(worker.name) + 1)
        self.replace(worker, "hung")
        return True

    def move(self, names: Collection[str]) -> None:
        """Replace one of the actors with these names, so that it finds a better place; others act meanwhile."""
        actor = next((each for each in self._topology.actors if each.name in names), None)
        if actor is not None and actor.failure() is None and not self._topology.config.takes_turns:
            self._say(f"{actor.name} moves to a node that has a CPU for it")
            self.replace(actor, "moved")

    def replace(self, worker: Worker[Any], why: str) -> None:
        """Replace an actor or the evaluator."""
        self._end_account(worker, "moved" if why == "moved" else "died")
        self._start_another(worker)
        self._recorder.start_over(worker.name)
        self._count_restart(why)

    def _start_another(self, worker: Worker[Any]) -> None:
        worker.replace()
        if worker in self._topology.actors:
            self._topology.statistics.give(worker)
        if worker in self._topology.actors and self._may_act():  # an evaluator does not tick, it is only called
            worker.start()

    def outlast(
        self, action: Callable[[], T], let_learn: Callable[[], None], meanwhile: Callable[[], None] = lambda: None
    ) -> T:
        """Return the result of an action; if a part dies meanwhile, repeat it once another one is there.

        Args:
            action: calls parts of the member.
            let_learn: called for each new learner.
            meanwhile: called before each repetition: looks after parts that other members own.

        Raises:
            Exception: the error of the action, or of a part that died too often.
        """
        given_up_at = time.monotonic() + START_DEADLINE_S
        while True:
            try:
                if self.recovery.is_under_way:
                    self.recovery.finish()
                    let_learn()
                return action()
            except PortClosedError as error:
                is_late = time.monotonic() > given_up_at
                if self._topology.config.takes_turns or is_late or not explains([self], error):
                    raise
            self.replace_dead_learner()
            self.look_at_served()
            meanwhile()
            time.sleep(_NOTICE_INTERVAL_S)

    def _end_account(self, worker: Worker[Any], reason: str = "died") -> None:
        if worker in self._topology.actors:
            self.replay.end(worker, reason)

    def _store_begun(self) -> None:
        self._note_lost("store_died", "the parameter store died: another one gets the parameters from the learner")
        self._topology.learner.call(Learner.publish_again)

    def _note_lost(self, reason: str, line: str) -> None:
        self._count_restart(reason)
        self._say(line)

    def _count_restart(self, why: str) -> None:
        self._restarts[f"restarts/{why}"] += 1.0
        self._recorder.report(Report("supervisor", dict(self._restarts)))


def explains(members: Iterable[Parts], error: Exception) -> bool:
    """Return whether an error of a call comes from the death of a part that these members replace.

    A call of a learner may fail a little before the learner's status does.
    """
    if isinstance(error, PortAwayError):
        return True
    if not isinstance(error, PortClosedError) or isinstance(error, WorkerDiedError | NoPlaceError):
        return False
    members, noticed_by = list(members), time.monotonic() + _NOTICE_S
    while not any(each.has_lost_learner for each in members):
        if time.monotonic() > noticed_by:
            return False
        time.sleep(_NOTICE_INTERVAL_S)
    return True
