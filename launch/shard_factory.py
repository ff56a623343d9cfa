"""The factory of a shard: everything that the shard's process receives, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laser.unroll import UnrollSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard


@dataclass(frozen=True)
class ShardFactory:
    """Makes one shard of a replay. Picklable; a process that calls it imports no torch.

    Args:
        unrolls: layout of the unrolls that all members insert.
        replay: the first member's replay config, which decides the replay's size.
        members: the replay settings of each member that uses the replay.
        index: number of the shard.
        seed: seed of the shard's draws.
        insert_timeout_s: seconds after which an insert that finds no room fails.
    """

    unrolls: UnrollSpec
    replay: ReplayConfig
    members: Sequence[MemberSettings]
    index: int
    seed: int
    insert_timeout_s: float

    def __call__(self) -> Shard:
        """Make the shard."""
        return Shard(
            self.unrolls,
            self.replay,
            self.members,
            shard=self.index,
            seed=self.seed,
            insert_timeout_s=self.insert_timeout_s,
        )
