"""Places: members of a sweep that wait until one of those that train has ended, and then start in its place."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from types import TracebackType

from laser.ports import NoPlaceError, PortClosedError
from launch.errors import NothingToResumeError, OutputError
from launch.planning.member_plan import MemberPlan
from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.runtimes.runtime import Runtime, ShardPort
from launch.supervision.budgets import Budgets
from launch.supervision.checkpointing import SavedMember, restore
from launch.supervision.ending import Ending
from launch.supervision.entering import enter
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.saved_replay import SavedReplay
from launch.supervision.starting import Starting
from launch.topology import Topology, place_later

_ROOM_EVERY_S = 5.0

OpenRun = Callable[[], AbstractContextManager[RunDirectory]]
"""Opens the run directory of a member, or makes it."""


@dataclass(frozen=True, eq=False)
class _Begun:
    """A member whose workers are being started."""

    run: RunDirectory
    recorder: Recorder
    topology: Topology
    state: SavedMember | None
    lost: NothingToResumeError | None
    starting: Starting
    budgets: Budgets

    def starts_again_after(self, error: Exception) -> bool:
        """Count a start that failed; return whether it is made again: a process or its node was lost, not too often."""
        is_lost = isinstance(error, PortClosedError) and not isinstance(error, NoPlaceError)
        return is_lost and self.topology.config.outlasts_deaths and self.budgets.may_die("start")


class Places:
    """The places of a session: members that wait get them in the order of their numbers. Used from one thread.

    There are as many places as there is room for members: more when nodes join a cluster, fewer when nodes leave.
    Members that train keep their places.

    A member has its files open only while it has a place, and its components exist only then. A member that waits has
    no run directory yet, so that a resumed sweep can tell it from one that has begun. One that has started gets a
    checkpoint at once: whatever ends the sweep, the member continues from it. One that loses a process while it starts,
    such as with its node, starts again.

    Args:
        members: plans of the members that wait.
        openers: opens each one's run directory.
        room: returns how many members may train at once now; asked at most every five seconds.
        open_recorder: makes a member's recorder; the stack closes its files.
        runtime: the runtime of the session.
        shared: shards of the shared replay; None: each member has shards of its own, which end with it.
        finish: writes the last checkpoint of a member that has ended, and its log.
        save: writes a checkpoint of a member.
        supervise: makes the supervisor of a member.
        say: receives a line about a member that starts again, for its log and the user.
        choose: returns the plan of a member whose turn has come.
        saved: what was saved of the shared replay; None: each member has a replay of its own.
    """

    def __init__(
        self,
        members: Sequence[MemberPlan],
        openers: Sequence[OpenRun],
        room: Callable[[], int],
        open_recorder: Callable[[ExitStack, RunDirectory, MemberPlan], Recorder],
        runtime: Runtime,
        shared: Sequence[ShardPort] | None,
        finish: Callable[[MemberSupervisor], None],
        save: Callable[[MemberSupervisor], None],
        supervise: Callable[[Topology, Recorder, RunDirectory], MemberSupervisor],
        say: Callable[[RunDirectory, str], None],
        choose: Callable[[MemberPlan], MemberPlan] = lambda member: member,
        saved: SavedReplay | None = None,
    ):
        self.runs: dict[int, RunDirectory] = {}
        """Run directories of the members that have begun, by number."""
        self._waiting = deque(zip(members, openers, strict=True))
        self._open_recorder = open_recorder
        self._runtime = runtime
        self._shared = shared
        self._finish = finish
        self._save = save
        self._supervise = supervise
        self._say = say
        self._choose = choose
        self._saved = saved
        self._room = room
        self._num_places, self._asked_at = 0, -math.inf
        self._num_held = 0
        self._begun: list[_Begun] = []
        self._files: dict[int, ExitStack] = {}
        self._all_files = ExitStack()

    def __enter__(self) -> Places:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all_files.__exit__(kind, error, trace)

    def hold(self, number: int, run: RunDirectory, files: ExitStack) -> None:
        """Note the files of a member that has a place; they are closed with it."""
        self.runs[number], self._files[number] = run, files
        self._num_held += 1

    @property
    def is_empty(self) -> bool:
        """Whether no member waits and none is being started."""
        return not self._waiting and not self._begun

    def give_back(self, supervisor: MemberSupervisor) -> None:
        """End the components of a member that has ended, and close its files."""
        self._finish(supervisor)
        self._release(self.runs[supervisor.number], supervisor.topology)
        self._files.pop(supervisor.number).close()
        self._num_held -= 1

    def _release(self, run: RunDirectory, topology: Topology) -> None:
        own_shards = topology.shards if self._shared is None else ()
        for complaint in self._runtime.release(topology.workers, topology.parameters, own_shards):
            self._say(run, f"warning: {complaint}")

    def begin(self) -> None:
        """Let members begin to start on the free places, without waiting for them.

        Raises:
            LaunchError: a run directory cannot be made or resumed, or no settings can be chosen.
        """
        if self._waiting and time.monotonic() - self._asked_at > _ROOM_EVERY_S:
            self._num_places, self._asked_at = self._room(), time.monotonic()
        while self._waiting and self._num_held < self._num_places:
            member, opener = self._waiting.popleft()
            self._num_held += 1
            member = self._choose(member)
            files = self._files[member.number] = self._all_files.enter_context(ExitStack())
            run = self.runs[member.number] = files.enter_context(opener())
            recorder = self._open_recorder(files, run, member)
            state, lost = restore(run, member)
            if state is not None:
                member = replace(member, first_incarnation=state.next_incarnation)
            topology, starting = self._place(member, recorder)
            budgets = Budgets(member.config, recorder)
            self._begun.append(_Begun(run, recorder, topology, state, lost, starting, budgets))

    def _place(self, member: MemberPlan, recorder: Recorder) -> tuple[Topology, Starting]:
        topology = place_later(member, recorder, self._runtime, self._shared)
        return topology, Starting(topology, member.config.takes_turns)

    def ready(self, wait: bool) -> list[MemberSupervisor]:
        """Return the supervisors of members that have started or failed to; with `wait`, of all that were begun."""
        supervisors: list[MemberSupervisor] = []
        while over := [begun for begun in self._begun if wait or begun.starting.is_over]:
            self._begun = [begun for begun in self._begun if begun not in over]  # one that starts again is put back
            supervisors += filter(None, map(self._start, over))
        return supervisors

    def save(self, supervisor: MemberSupervisor) -> None:
        """Write the first checkpoint of a member that has started."""
        self._save(supervisor)

    def _start(self, begun: _Begun) -> MemberSupervisor | None:
        error: Exception | None = begun.lost
        try:
            how = begun.starting.wait()
            self._enter(begun, how)
        except OutputError:
            raise  # a full disk concerns all members
        except Exception as reason:  # noqa: BLE001 - kept in the member's outcome, or the member starts again
            error = error or reason
        if error is not None and begun.starts_again_after(error):
            try:
                self._start_again(begun, error)
                return None
            except NoPlaceError as nowhere:
                error = nowhere
        return self._supervised(begun, error)

    def _start_again(self, begun: _Begun, reason: Exception) -> None:
        member = begun.topology.member
        self._say(begun.run, f"member {member.number} starts again: {reason}")
        self._release(begun.run, begun.topology)
        topology, starting = self._place(member, begun.recorder)
        self._begun.append(replace(begun, topology=topology, starting=starting))

    def _enter(self, begun: _Begun, how: str) -> None:
        """Put what was saved into the components of a member that have started."""
        topology, replay = begun.topology, self._saved
        if replay is not None:  # the shards of the shared replay hold it by now
            enter(begun.run, topology, begun.recorder, begun.state, replay, how)
            return
        replay = SavedReplay([(topology.member, begun.state)])
        replay.load_into(topology.shards)
        if replay.has_keys_for(topology.shards):
            begun.run.replay.begin_from(replay.content)
        enter(begun.run, topology, begun.recorder, begun.state, replay, how)
        replay.count_in_transit(begun.recorder)

    def _supervised(self, begun: _Begun, error: Exception | None) -> MemberSupervisor:
        """Return the supervisor of a member that has started or has failed to."""
        supervisor = self._supervise(begun.topology, begun.recorder, begun.run)
        begun.recorder.begin()
        if error is not None:
            supervisor.stop(Ending.FAILED, error)
        return supervisor
