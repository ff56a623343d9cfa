"""The end of a member's inserts: nothing waits any more, and every unroll has been reported."""

from __future__ import annotations

from concurrent.futures import wait as wait_for
from contextlib import suppress
from typing import Any

from actors.actor import Actor
from laser.ports import PortError
from launch.runtimes.runtime import Worker, WorkerDiedError
from launch.topology import Topology

_REST_S = 5.0
"""Seconds for all actors to come to rest: an unroll of a slow environment may take longer, and is then left out."""


def settle(topology: Topology) -> list[tuple[Worker[Any], str]]:
    """Settle what is under way in a member whose workers have been stopped.

    Actors finish their unrolls. Then inserts that wait for the learner fail, and the last reports are passed on. A
    shard or an actor that does not answer is left out.

    Returns:
        the actors whose reports may be incomplete, with the reason: "stopped" if one did not come to rest, "died" if
        its process died.
    """
    resting = [actor.call(Actor.finish, 0.0) for actor in topology.actors]
    wait_for(resting, _REST_S)
    for shard in topology.shards:
        with suppress(PortError):  # its unrolls are counted as it was last seen
            shard.end_inserts(topology.member.number)
    finishing = [
        actor.call(Actor.finish, _REST_S)
        for actor, rest in zip(topology.actors, resting, strict=True)
        if rest.done() and rest.exception() is None
    ]
    wait_for(finishing, 2 * _REST_S)
    for actor in topology.actors:
        actor.pass_on_reports(_REST_S)
    restless = [(actor, "stopped") for actor, rest in zip(topology.actors, resting, strict=True) if not rest.done()]
    return restless + [(actor, "died") for actor in topology.actors if isinstance(actor.failure(), WorkerDiedError)]
