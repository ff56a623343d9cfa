"""The schedule of a session: the base class of the free and the lockstep schedule."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from launch.errors import LaunchError
from launch.recording.recorder import Snapshot
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor

CALL_DEADLINE_S = 900.0
"""Deadline in seconds of a call that contains whole unrolls, updates with their compilation, or episodes."""

Save = Callable[[MemberSupervisor, Snapshot], None]


class Evolution(Protocol):
    """A rule that may change members while they train (see `launch.sweeps.population`)."""

    def consider(self, supervisor: MemberSupervisor, snapshot: Snapshot) -> None:
        """Decide about a member, if a decision is due, and carry the decision out."""


class Schedule(ABC):
    """The base of both schedules: when to save, when to stop, and that a member's failure does not end the others.

    Args:
        supervisors: the supervisors of all members.
        should_stop: returns whether to stop, e.g. after a signal; called between steps.
        save: writes a checkpoint of a member with its snapshot; called when one is due.
        evolution: rule that may change members, called for each member again and again.
    """

    def __init__(
        self,
        supervisors: Sequence[MemberSupervisor],
        should_stop: Callable[[], bool],
        save: Save,
        evolution: Evolution | None = None,
    ):
        self.supervisors = list(supervisors)
        self.should_stop = should_stop
        self.save = save
        self.evolution = evolution
        self._saved_at = time.monotonic()

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

    def end_finished(self) -> None:
        """Stop members that have nothing left to do: in a resumed population some may have ended before."""
        for supervisor in self.running:
            why = supervisor.why_over(supervisor.recorder.snapshot())
            if why:
                supervisor.stop(why)
                with self.failing_alone(supervisor):
                    supervisor.end_accounts()

    def save_if_due(self) -> None:
        """Write a checkpoint of every running member if the interval has passed."""
        if not self.running:
            return
        interval_s = min(supervisor.topology.config.learner.checkpoint_interval_s for supervisor in self.running)
        if time.monotonic() - self._saved_at < interval_s:
            return
        for supervisor in [*self.running, *self._keepers()]:
            try:
                self.save(supervisor, supervisor.recorder.snapshot())
            except LaunchError:
                raise  # a full disk concerns all members
            except Exception as error:  # noqa: BLE001 - a failure of one member; raised if it was the last
                self.fail(supervisor, error)
        self._saved_at = time.monotonic()

    def _keepers(self) -> list[MemberSupervisor]:
        """Return the ended members whose checkpoints hold the replay that running members still fill."""
        if all(supervisor.topology.owns_replay for supervisor in self.running):
            return []
        return [
            supervisor
            for supervisor in self.supervisors
            if supervisor.finished not in (Ending.NONE, Ending.FAILED)
            and supervisor.topology.owns_replay
            and supervisor.topology.config.checkpoint_replay
        ]

    @contextmanager
    def failing_alone(self, supervisor: MemberSupervisor) -> Iterator[None]:
        """Turn an error inside the block into the failure of this member only; raise it if no other is left."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept with the member, or raised
            self.fail(supervisor, error)

    def fail(self, supervisor: MemberSupervisor, error: Exception) -> None:
        """Give up one member.

        Raises:
            Exception: the error itself, if no other member is left.
        """
        supervisor.stop(Ending.FAILED, error)
        if all(other.finished is Ending.FAILED for other in self.supervisors):
            raise error
