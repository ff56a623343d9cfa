"""The start of members: their workers compile networks and make environments, and the user reads what is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from actors.actor import Actor
from actors.heartbeat import CONSTRUCTION
from laser.environments.config import BEING_CONSTRUCTED
from launch.recording.progress import Progress, duration
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
        self._constructing: frozenset[str] = frozenset()
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
        """The names of the workers that have not started yet, and that their environments are being constructed."""
        calls = dict(zip(self.names, [self._learner, *self._actors], strict=False))
        waiting = [name for name in self.names if name not in calls or not calls[name].done()]
        return [name + f" (its environment is {BEING_CONSTRUCTED})" * (name in self._constructing) for name in waiting]

    def wait(self, look: Callable[[], None] = lambda: None) -> str:
        """Wait for the workers, and return how the learner computes.

        Args:
            look: called about once a second; an error that it raises ends the waiting.
        """

        def should_stop() -> bool:
            look()
            # Here, since only one thread may ask a worker.
            actors = self._topology.actors
            self._constructing = frozenset(actor.name for actor in actors if actor.silent_s(CONSTRUCTION))
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


def start_all(topologies: Sequence[Topology], quiet: bool = True, look: Callable[[], None] = lambda: None) -> list[str]:
    """Compile networks and make environments; return how each learner computes.

    Args:
        topologies: the members.
        quiet: do not show what is waited for.
        look: called about once a second; an error that it raises ends the start.

    Raises:
        EnvironmentBudgetError: an environment failed too often before its first step.
        HungEnvironmentError: an environment did not return from its construction or first reset.
    """
    in_turns = topologies[0].config.takes_turns
    begun = [Starting(topology, in_turns) for topology in topologies]
    names = [name for starting in begun for name in starting.names]
    begun_at = time.monotonic()

    def waiting() -> list[str]:
        return [name for starting in begun for name in starting.waiting_for]

    def line(left: Sequence[str], *_: Any) -> str:
        named = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "")
        ready = f"{len(names) - len(left)} of {len(names)} workers are ready"
        return f"preparing for {duration(time.monotonic() - begun_at)} · {ready} · waiting for {named}"

    with Progress(waiting, 1, quiet=quiet, line=line, share=lambda left: 1.0 - len(left) / len(names)):
        return [starting.wait(look) for starting in begun]
