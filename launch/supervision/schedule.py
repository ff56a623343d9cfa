"""The schedule of a session: what the free and the lockstep one share."""

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
"""Seconds until a call must be answered that contains whole unrolls, updates with their compilation, or episodes."""

Save = Callable[[MemberSupervisor, Snapshot], None]


class Evolution(Protocol):
    """What may change members while they train (see `launch.sweeps.population`)."""

    def consider(self, supervisor: MemberSupervisor, snapshot: Snapshot) -> None:
        """Decide about a member, if it is time, and carry it out."""


class Schedule(ABC):
    """What both schedules share: when to save, when to stop, and that one member's failure is not the others'.

    Args:
        supervisors: of all members.
        should_stop: asked between steps, e.g. for signals.
        save: called with a member and its snapshot when a checkpoint is due.
        evolution: asked about every member now and then.
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
        """Run until all members are at their end; each supervisor knows why.

        Raises:
            the error that ended a member, where no member is left.
        """

    @property
    def running(self) -> list[MemberSupervisor]:
        """The members that are not at their end."""
        return [supervisor for supervisor in self.supervisors if not supervisor.finished]

    def end_finished(self) -> None:
        """Stop members that have nothing left to do: of a resumed population some may have been at their end."""
        for supervisor in self.running:
            why = supervisor.why_over(supervisor.recorder.snapshot())
            if why:
                supervisor.stop(why)

    def save_if_due(self) -> None:
        """Write a checkpoint of every living member when the interval has passed."""
        if not self.running:
            return
        interval_s = min(supervisor.topology.config.learner.checkpoint_interval_s for supervisor in self.running)
        if time.monotonic() - self._saved_at < interval_s:
            return
        for supervisor in [*self.running, *self._keepers()]:
            try:
                self.save(supervisor, supervisor.recorder.snapshot())
            except LaunchError:
                raise  # a full disk is everybody's
            except Exception as error:  # noqa: BLE001 - one member's failure; raised if it was the last
                self.fail(supervisor, error)
        self._saved_at = time.monotonic()

    def _keepers(self) -> list[MemberSupervisor]:
        """Return who is at its end and keeps, in its checkpoints, the replay that the others go on filling."""
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
        """Let what goes wrong inside be one member's failure, unless it was the last; see `fail`."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept with the member, or raised
            self.fail(supervisor, error)

    def fail(self, supervisor: MemberSupervisor, error: Exception) -> None:
        """Give up on one member.

        Raises:
            the error, where no other member is left to go on.
        """
        supervisor.stop(Ending.FAILED, error)
        if all(other.finished is Ending.FAILED for other in self.supervisors):
            raise error
