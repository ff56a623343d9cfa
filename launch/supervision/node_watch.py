"""The watch over the nodes of a cluster: how many members have room, and which actors have a better place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from launch.runtimes.runtime import Runtime
from launch.supervision.member_supervisor import MemberSupervisor

_MOVE_INTERVAL_S = 10.0
"""Seconds between two looks whether actors that share a CPU could have one of their own; one of each member moves."""


class NodeWatch:
    """Follows the room that a runtime has as nodes come and go. Used from one thread.

    Args:
        runtime: places the members.
        most: members that may train at once.
        num_at_begin: members that begin at once.
        say: receives lines for the user.
    """

    def __init__(self, runtime: Runtime, most: int, num_at_begin: int, say: Callable[[Sequence[str]], None]):
        self._runtime, self._most, self._say = runtime, most, say
        self._num_places = num_at_begin
        self._num_said = len(runtime.notes)
        self._moved_at = time.monotonic()

    def room(self) -> int:
        """Return the number of members that may train at once, and say when it has changed."""
        room = int(min(self._most, max(1, self._runtime.room())))
        self._say_notes()
        if room != self._num_places:
            more = "more" if room > self._num_places else "fewer"
            members = f"{room} member" + ("" if room == 1 else "s")
            self._say([f"the cluster has room for {members} at once now, {more} than before"])
        self._num_places = room
        return room

    def move_actors(self, supervisors: Iterable[MemberSupervisor]) -> None:
        """Move actors that have shared a CPU since a node was lost to nodes that have joined; a few at a time."""
        if time.monotonic() - self._moved_at <= _MOVE_INTERVAL_S:
            return
        self._moved_at = time.monotonic()
        names = self._runtime.crowded()
        self._say_notes()
        for supervisor in supervisors:
            supervisor.parts.move(names)

    def _say_notes(self) -> None:
        """Say what the runtime has noted since the last time, such as a node that joined and is not used."""
        notes = self._runtime.notes[self._num_said :]
        self._num_said += len(notes)
        self._say([f"warning: {note}" for note in notes])
