"""Needs of a session: the resources that it requests from a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Needs:
    """The resources that a session requests from a cluster.

    Args:
        num_learners: one, or the number of members of a sweep.
        num_actors: number of actors over all members.
        device: device of the learners: auto, cpu or cuda.
        num_shards: number of shards over all members.
        shard_bytes: bytes that each shard may need.
        learner_bytes: bytes that each learner may need.
        actor_bytes: bytes that each actor may need.
        may_wait: whether members for which there is no room wait for some; the numbers are then the most at once.
    """

    num_learners: int = 1
    num_actors: int = 0
    device: str = "auto"
    num_shards: int = 1
    shard_bytes: int = 0
    learner_bytes: int = 0
    actor_bytes: int = 0
    may_wait: bool = False

    @property
    def actors_each(self) -> int:
        """Actors of one member, of several the mean rounded up."""
        return -(-self.num_actors // self.num_learners)

    def of_members(self, num_members: int) -> Needs:
        """Return the needs of fewer members."""
        num_actors = min(self.num_actors, num_members * self.actors_each)
        return replace(self, num_learners=num_members, num_actors=num_actors)
