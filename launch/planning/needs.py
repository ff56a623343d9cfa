"""Needs of a session: what it asks of a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """What a session asks of a cluster.

    Args:
        num_learners: one, or the members of a sweep.
        num_actors: over all members.
        device: where learners compute: auto, cpu or cuda.
        num_shards: of the replay, over all members.
        shard_bytes: what each shard may need.
        learner_bytes: what each learner may need.
        actor_bytes: what each actor may need.
    """

    num_learners: int = 1
    num_actors: int = 0
    device: str = "auto"
    num_shards: int = 1
    shard_bytes: int = 0
    learner_bytes: int = 0
    actor_bytes: int = 0
