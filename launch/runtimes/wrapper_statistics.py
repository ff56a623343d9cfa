"""The statistics of wrappers over all actors of a member: collected for checkpoints and evaluations, and given back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

from actors.actor import Actor
from laser.environments.statistics import Statistics, merge
from launch.runtimes.runtime import Worker

_PATIENCE_S = 5.0
"""Seconds to wait for actors, which answer between two unrolls; one that takes longer is read the next time."""
_GIVE_DEADLINE_S = 120.0


class WrapperStatistics:
    """Collects the statistics of the wrappers around the environments of a member's actors. Used from one thread.

    Args:
        actors: the member's actors.
    """

    def __init__(self, actors: Sequence[Worker[Actor]]):
        self._actors = list(actors)
        self._asked: dict[int, Future[Statistics | None]] = {}
        self._read: dict[int, Statistics] = {}
        self._has_none = False
        self.newest: Statistics = {}
        """The union over all actors when they were last collected or given back; {} without such wrappers."""

    def collect(self) -> Statistics:
        """Return the newest statistics; once no environment had any, no call is made."""
        if self._has_none:
            return {}
        for place, actor in enumerate(self._actors):
            if place not in self._asked:
                self._asked[place] = actor.call(Actor.statistics)
        wait_for(self._asked.values(), _PATIENCE_S)
        num_without = 0
        for place, answer in list(self._asked.items()):
            if not answer.done():
                continue
            del self._asked[place]
            # The statistics of an actor that died are those of the last time.
            found = None if answer.cancelled() or answer.exception() is not None else answer.result()
            num_without += found == {}
            if found:
                self._read[place] = found
        self._has_none = num_without == len(self._actors)
        if self._read:
            self.newest = merge(list(self._read.values()))
        return self.newest

    def restore(self, statistics: Statistics) -> bool:
        """Give all actors these statistics before their first step; return whether they fit the wrappers."""
        if not statistics:
            return True
        self.newest = merge([statistics])
        given = [actor.call(Actor.give_statistics, statistics) for actor in self._actors]
        until = time.monotonic() + _GIVE_DEADLINE_S
        return all(call.result(max(0.0, until - time.monotonic())) for call in given)

    def give(self, actor: Worker[Actor]) -> None:
        """Give an actor that takes the place of another one the newest statistics."""
        if self.newest:
            actor.call(Actor.give_statistics, self.newest)
