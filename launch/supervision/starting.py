"""The start of members: their workers compile networks and make environments, and the user reads what is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from actors.actor import Actor
from actors.heartbeat import CONSTRUCTION, ENVIRONMENT
from laser.environments.config import BEING_CONSTRUCTED
from laser.waiting import waiting_for
from launch.runtimes.hangs import hung_in, wait_until_done
from launch.runtimes.runtime import Worker
from launch.supervision.learner_recovery import START_DEADLINE_S
from launch.topology import Topology
from learner.learner import Learner

T = TypeVar("T")

_NAMED = 3
"""Number of workers that a line names."""


class Starting:
    """The start of one member's workers.

    All start at the same time: a learner compiles while actors make their environments. In lockstep they start one
    after the other, since environments of a user's own may draw from global random numbers.
    """

    def __init__(self, topology: Topology, in_turns: bool):
        self._topology = topology
        self._begun_at = time.monotonic()
        self._learner = topology.learner.call(Learner.warm_up)
        self._actors: list[Future[Any]] = []
        self.environment_words = ""
        """The environment that had not returned from its construction or first reset at the last look, and whose."""
        if not in_turns:
            self._actors += [actor.call(Actor.warm_up) for actor in topology.actors]

    @property
    def is_over(self) -> bool:
        """Whether `wait` will not wait long: the workers have started, one hangs, or their time is up."""
        calls: list[Future[Any]] = [self._learner, *self._actors]
        hangs = any(hung_in(actor, self._topology.config) for actor in self._topology.actors)
        return all(call.done() for call in calls) or hangs or time.monotonic() - self._begun_at > START_DEADLINE_S

    @property
    def names(self) -> list[str]:
        """The names of all workers."""
        return [self._topology.learner.name, *(actor.name for actor in self._topology.actors)]

    @property
    def waiting_for(self) -> list[str]:
        """The names of the workers that have not started yet."""
        calls = dict(zip(self.names, [self._learner, *self._actors], strict=False))
        return [name for name in self.names if name not in calls or not calls[name].done()]

    def _environment_words(self) -> str:
        env = self._topology.config.env
        for actor in self._topology.actors:
            for call, words in ((CONSTRUCTION, BEING_CONSTRUCTED), (ENVIRONMENT, "a reset")):
                # A process that computes may not answer for seconds, and waits for no environment meanwhile.
                if actor.silent_s(call) and actor.waiting_for == call:
                    return f"{env} of {actor.name} to return from {words}"
        return ""

    def wait(self, look: Callable[[], None] = lambda: None) -> str:
        """Wait for the workers, and return how the learner computes.

        Args:
            look: called about once a second; an error that it raises ends the waiting.
        """

        def should_stop() -> bool:
            look()
            self.environment_words = self._environment_words()  # here, since only one thread may ask a worker
            return False

        def result_of(call: Future[T], worker: Worker[Any]) -> T:
            config = self._topology.config
            wait_until_done(call, worker, config, START_DEADLINE_S, f"{worker.name} to start", should_stop)
            return call.result()

        how: str = result_of(self._learner, self._topology.learner)
        for number, actor in enumerate(self._topology.actors):
            if number == len(self._actors):
                self._actors.append(actor.call(Actor.warm_up))
            result_of(self._actors[number], actor)
        return how


def start_all(topologies: Sequence[Topology], look: Callable[[], None] = lambda: None) -> list[str]:
    """Compile networks and make environments; return how each learner computes.

    Args:
        topologies: the members.
        look: called about once a second; an error that it raises ends the start.

    Raises:
        EnvironmentBudgetError: an environment failed too often before its first step.
        HungEnvironmentError: an environment did not return from its construction or first reset.
    """
    in_turns = topologies[0].config.takes_turns
    begun = [Starting(topology, in_turns) for topology in topologies]
    with waiting_for(partial(_words, begun)):
        return [starting.wait(look) for starting in begun]


def _words(begun: Sequence[Starting]) -> str:
    """Return what is waited for: an environment that does not return, or else the workers that have not started."""
    for starting in begun:
        if words := starting.environment_words:
            return words
    left = [name for starting in begun for name in starting.waiting_for]
    return ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "") + " to start"
