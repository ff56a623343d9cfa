"""Places: members of a sweep that wait until one of those that train has ended, and then start in its place."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any

from actors.actor import Actor
from actors.heartbeat import CONSTRUCTION, ENVIRONMENT
from laser.environments.config import BEING_CONSTRUCTED
from laser.ports import wait
from laser.waiting import waiting_for
from launch.errors import NothingToResumeError, OutputError
from launch.planning.member_plan import MemberPlan
from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.runtimes.hangs import hung_in, wait_unless_hung
from launch.runtimes.runtime import Runtime, ShardPort, Worker
from launch.supervision.checkpointing import SavedMember, restore
from launch.supervision.ending import Ending
from launch.supervision.entering import enter
from launch.supervision.learner_recovery import START_DEADLINE_S
from launch.supervision.member_supervisor import MemberSupervisor
from launch.topology import Topology, place_later
from learner.learner import Learner

OpenRun = Callable[[], AbstractContextManager[RunDirectory]]
"""Opens the run directory of a member, or makes it."""


class Starting:
    """The start of one member's workers.

    All start at the same time: a learner compiles while actors make their environments. In lockstep they start one
    after the other, since environments of a user's own may draw from global random numbers.
    """

    def __init__(self, topology: Topology, in_turns: bool):
        self._topology = topology
        self._begun_at = time.monotonic()
        self._learner = topology.learner.call(Learner.warm_up)
        self._actors = [] if in_turns else [actor.call(Actor.warm_up) for actor in topology.actors]

    @property
    def is_over(self) -> bool:
        """Whether `wait` will not wait long: the workers have started, one hangs, or their time is up."""
        calls: list[Future[Any]] = [self._learner, *self._actors]
        hangs = any(hung_in(actor, self._topology.config) for actor in self._topology.actors)
        return all(call.done() for call in calls) or hangs or time.monotonic() - self._begun_at > START_DEADLINE_S

    def what(self) -> str:
        """Return what is waited for."""
        waiting = (actor for actor, call in zip(self._topology.actors, self._actors, strict=False) if not call.done())
        actor = next(waiting, None) if self._learner.done() else None
        return "the learner to start" if actor is None else _what_starts(actor, self._topology.config.env)

    def wait(self) -> str:
        """Wait for the workers, and return how the learner computes."""
        how: str = wait(self._learner, START_DEADLINE_S, "the learner to start")
        config = self._topology.config
        for number, actor in enumerate(self._topology.actors):
            call = self._actors[number] if self._actors else actor.call(Actor.warm_up)
            with waiting_for(partial(_what_starts, actor, config.env)):
                wait_unless_hung(call, actor, config, START_DEADLINE_S, f"{actor.name} to start")
        return how


def _what_starts(actor: Worker[Actor], env: str) -> str:
    if actor.silent_s(CONSTRUCTION):
        return f"{env} of {actor.name} to return from {BEING_CONSTRUCTED}"
    return f"{env} of {actor.name} to return from a reset" if actor.silent_s(ENVIRONMENT) else f"{actor.name} to start"


@dataclass(frozen=True, eq=False)
class _Begun:
    """A member whose workers are being started."""

    run: RunDirectory
    recorder: Recorder
    topology: Topology
    state: SavedMember | None
    lost: NothingToResumeError | None
    starting: Starting


class Places:
    """The places of a session: members that wait get them in the order of their numbers. Used from one thread.

    A member has its files open only while it has a place, and its components exist only then. A member that waits has
    no run directory yet, so that a resumed sweep can tell it from one that has begun. One that has started gets a
    checkpoint at once: whatever ends the sweep, the member continues from it.

    Args:
        members: plans of the members that wait.
        openers: opens each one's run directory.
        open_recorder: makes a member's recorder; the stack closes its files.
        runtime: the runtime of the session.
        shared: shards of the shared replay; None: each member has shards of its own, which end with it.
        finish: writes the last checkpoint of a member that has ended, and its log.
        save: writes a checkpoint of a member.
        supervise: makes the supervisor of a member.
    """

    def __init__(
        self,
        members: Sequence[MemberPlan],
        openers: Sequence[OpenRun],
        open_recorder: Callable[[ExitStack, RunDirectory, MemberPlan], Recorder],
        runtime: Runtime,
        shared: Sequence[ShardPort] | None,
        finish: Callable[[MemberSupervisor], None],
        save: Callable[[MemberSupervisor], None],
        supervise: Callable[[Topology, Recorder, RunDirectory], MemberSupervisor],
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
        self._num_free = 0
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

    @property
    def is_empty(self) -> bool:
        """Whether no member waits and none is being started."""
        return not self._waiting and not self._begun

    def give_back(self, supervisor: MemberSupervisor) -> None:
        """End the components of a member that has ended, and close its files."""
        self._finish(supervisor)
        topology = supervisor.topology
        own_shards = topology.shards if self._shared is None else ()
        for complaint in self._runtime.release(topology.workers, topology.parameters, own_shards):
            supervisor.say(f"warning: {complaint}")
        self._files.pop(supervisor.number).close()
        self._num_free += 1

    def begin(self) -> None:
        """Let members begin to start on the free places, without waiting for them.

        Raises:
            LaunchError: a run directory cannot be made or resumed.
        """
        while self._num_free and self._waiting:
            member, opener = self._waiting.popleft()
            self._num_free -= 1
            files = self._files[member.number] = self._all_files.enter_context(ExitStack())
            run = self.runs[member.number] = files.enter_context(opener())
            recorder = self._open_recorder(files, run, member)
            state, lost = restore(run, member)
            if state is not None:
                member = replace(member, first_incarnation=state.next_incarnation)
            topology = place_later(member, recorder, self._runtime, self._shared)
            starting = Starting(topology, member.config.takes_turns)
            self._begun.append(_Begun(run, recorder, topology, state, lost, starting))

    def ready(self, wait: bool) -> list[MemberSupervisor]:
        """Return the supervisors of members that have started or failed to; with `wait`, of all that were begun."""
        over = [begun for begun in self._begun if wait or begun.starting.is_over]
        self._begun = [begun for begun in self._begun if begun not in over]
        return [self._start(begun) for begun in over]

    def _start(self, begun: _Begun) -> MemberSupervisor:
        error: Exception | None = begun.lost
        try:
            how = begun.starting.wait()
            has_replay = begun.state is not None and begun.topology.owns_replay and begun.state.has_replay
            enter(begun.run, begun.topology, begun.recorder, begun.state, has_replay, how)
        except OutputError:
            raise  # a full disk concerns all members
        except Exception as reason:  # noqa: BLE001 - kept in the member's outcome
            error = error or reason
        supervisor = self._supervise(begun.topology, begun.recorder, begun.run)
        begun.recorder.begin()
        if error is None:
            self._save(supervisor)
        else:
            supervisor.stop(Ending.FAILED, error)
        return supervisor
