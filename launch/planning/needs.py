"""Needs of a session: the resources that it requests from a cluster."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    num_learners: int = 1
    num_actors: int = 0
    device: str = "auto"
    num_shards: int = 1
    shard_bytes: int = 0
    learner_bytes: int = 0
    actor_bytes: int = 0
