"""The schedule of a session: the base class of the free and the lockstep schedule."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from launch.errors import LaunchError
from launch.planning.member_plan import MemberPlan
from launch.recording.recorder import Snapshot
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor

CALL_DEADLINE_S = 900.0
"""Deadline in seconds of a call that contains whole unrolls, updates with their compilation, or episodes."""

Save = Callable[[MemberSupervisor, Snapshot], None]
SaveReplay = Callable[[Sequence[MemberSupervisor]], None]
"""Saves a shared replay; it receives the supervisors of members that have a place: one that has ended may own it."""


class Evolution(Protocol):
    """A rule that may change members while they train (see `launch.sweeps.population`)."""

    def consider(self, supervisor: MemberSupervisor, snapshot: Snapshot) -> None:
        """Decide about a member, if a decision is due, and carry the decision out."""

    def recovered(self, supervisor: MemberSupervisor) -> None:
        """Give a member's new learner, which continues from a checkpoint, its settings of now."""


class Pruner(Protocol):
    """A rule that may end members early (see `launch.sweeps.pruning`)."""

    def judge(self, supervisor: MemberSupervisor, why: Ending) -> Ending:
        """Return the ending of a member at this point: its own, `why`, or that of the rule."""


class Tuner(Protocol):
    """A search that chooses the settings of members when their turn comes (see `launch.sweeps.tuning`)."""

    def begins(self, member: MemberPlan) -> MemberPlan:
        """Return the plan of a member whose turn has come, with its settings."""

    def ended(self, supervisor: MemberSupervisor) -> None:
        """Learn that a member has ended."""


class Waiting(Protocol):
    """The members that wait for a place (see `launch.supervision.places`)."""

    @property
    def is_empty(self) -> bool:
        """Whether no member waits and none is being started."""

    def give_back(self, supervisor: MemberSupervisor) -> None:
        """Take the place of a member that has ended, after its last checkpoint."""

    def begin(self) -> None:
        """Let members begin to start on the free places, without waiting for them."""

    def ready(self, wait: bool) -> list[MemberSupervisor]:
        """Return the supervisors of members that have started; with `wait`, of all that are being started."""

    def save(self, supervisor: MemberSupervisor) -> None:
        """Write the first checkpoint of a member that has started."""


class Schedule(ABC):
    """The base of both schedules: when to save, when to stop, and that a member's failure does not end the others.

    Args:
        supervisors: the supervisors of all members.
        should_stop: returns whether to stop, e.g. after a signal; called between steps.
        save: writes a checkpoint of a member with its snapshot; called when one is due.
        evolution: rule that may change members, called for each member again and again.
        waiting: the members that wait for the place of one that ends; None: all train at the same time.
        look: called between steps, again and again, on the schedule's thread.
        pruner: rule that may end members early, asked whenever a member might end.
        save_replay: saves a replay that members share; called after their own checkpoints.
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
    ):
        self.supervisors = list(supervisors)
        self.waiting = waiting
        self.should_stop = should_stop
        self.save = save
        self.evolution = evolution
        self.look = look
        self.pruner = pruner
        self.save_replay = save_replay
        self._saved_at = time.monotonic()
        self._ended_at: dict[int, float] = {}
        self._owner = self._find_owner()  # the last one, also when it has given back its place

    @abstractmethod
    def run(self) -> None:
        """Run until all members have ended; each supervisor's `finished` is its ending.

        Raises:
            Exception: the error that ended a member, if no member is left.
        """

    @property
    def running(self) -> list[MemberSupervisor]:
        """The supervisors of members that have not ended."""
        return [supervisor for supervisor in self.supervisors if not supervisor.finished]

    @property
    def has_waiting(self) -> bool:
        """Whether a member waits for a place or is being started."""
        return self.waiting is not None and not self.waiting.is_empty

    def fill_places(self, stops: bool, wait: bool) -> list[MemberSupervisor]:
        """Give the places of ended members to waiting ones; return the supervisors of those that have started.

        A member keeps its place while its last evaluation runs, at most for `CALL_DEADLINE_S`. After a stop no further
        member begins, but those that are being started get a checkpoint, so that a resumed sweep continues with them.

        Args:
            stops: whether a stop was requested.
            wait: whether to wait for members that are being started.
        """
        if self.waiting is None:
            return []
        for supervisor in [each for each in self.supervisors if each.finished]:
            ended_at = self._ended_at.setdefault(supervisor.number, time.monotonic())
            if time.monotonic() - ended_at > CALL_DEADLINE_S:
                supervisor.give_up_evaluation()
            if supervisor.finished is Ending.FAILED or supervisor.evaluation is None:
                self.waiting.give_back(supervisor)
                self.supervisors.remove(supervisor)
        if not stops:
            self.waiting.begin()
        started = self.waiting.ready(wait or stops)
        self.supervisors += started
        self._hand_on_replay()
        for supervisor in [each for each in started if not each.finished]:
            self.waiting.save(supervisor)  # after that: a shard that died begins again only if a member owns it
        self.end_finished([each for each in started if not each.finished])
        return [each for each in started if not each.finished]

    def watch_replay(self) -> None:
        """Let shards that died begin again while a member waits for them; members that share them have one owner."""
        owner = self._find_owner()
        if owner is not None:
            owner.watch_replay()

    def _hand_on_replay(self) -> None:
        """Give the shards of a shared replay, whose owner has given back its place, to a member that trains."""
        if self._owner is not None and self.running and self._find_owner() is None:
            self.running[0].own_replay(self._owner)
        self._owner = self._find_owner() or self._owner

    def _find_owner(self) -> MemberSupervisor | None:
        return next((each for each in self.supervisors if each.topology.owns_replay), None)

    def end_finished(self, supervisors: Sequence[MemberSupervisor]) -> None:
        """Stop those of these members that have nothing left to do: in a resumed population some have ended before."""
        for supervisor in supervisors:
            why = self.judged(supervisor, supervisor.why_over(supervisor.recorder.snapshot()))
            if why:
                supervisor.stop(why)
                with self.failing_alone(supervisor):
                    supervisor.end_accounts()

    def judged(self, supervisor: MemberSupervisor, why: Ending) -> Ending:
        """Return the ending of a member at this point: its own, `why`, or that of the pruner."""
        return why if self.pruner is None else self.pruner.judge(supervisor, why)

    def save_if_due(self) -> None:
        """Write a checkpoint of every running member if the interval has passed."""
        if not self.running:
            return
        interval_s = min(supervisor.topology.config.learner.checkpoint_interval_s for supervisor in self.running)
        if time.monotonic() - self._saved_at < interval_s:
            return
        for supervisor in self.running:
            if self.is_recovering(supervisor):
                continue  # the new learner continues from the last one
            try:
                self.save(supervisor, supervisor.recorder.snapshot())
            except LaunchError:
                raise  # a full disk concerns all members
            except Exception as error:  # noqa: BLE001 - a failure of one member; raised if it was the last
                if not self.outlasts(error):
                    self.fail(supervisor, error)
        self.save_replay(self.supervisors)
        self._saved_at = time.monotonic()

    @contextmanager
    def failing_alone(self, supervisor: MemberSupervisor) -> Iterator[None]:
        """Turn an error inside the block into the failure of this member only; raise it if no other is left."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept with the member, or raised
            if not self.outlasts(error):
                self.fail(supervisor, error)

    def is_recovering(self, supervisor: MemberSupervisor) -> bool:
        """Return whether a member waits for a new learner; in lockstep none does."""
        return False

    def outlasts(self, error: Exception) -> bool:
        """Return whether an error comes from a part that died and is replaced soon; in lockstep none is."""
        return False

    def fail(self, supervisor: MemberSupervisor, error: Exception) -> None:
        """Give up one member.

        Raises:
            Exception: the error itself, if no other member is left.
        """
        supervisor.stop(Ending.FAILED, error)
        if self.waiting is None and all(other.finished is Ending.FAILED for other in self.supervisors):
            raise error
