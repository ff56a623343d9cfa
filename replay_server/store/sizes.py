"""Memory sizes of a replay, computed before any of it is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laser.unroll import UnrollSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.samplers import samplers_called
from replay_server.storage.arena import BLOCK_BYTES

# Compressed bytes are budgeted at 1/12 of the raw frames. Measured on Atari: 24-165x smaller, worst game 6x. If a game
# needs more, the byte capacity forgets episodes earlier than the step capacity would.
RAW_BYTES_PER_COMPRESSED_BYTE = 12
# A replay whose raw frames fit in this gets room for frames that do not compress at all: for so small a replay the risk
# is a batch that does not fit, not memory.
SMALL_BYTES = 64 * 2**20


@dataclass(frozen=True)
class ShardSizes:
    """The sizes of one shard, all fixed at construction.

    Args:
        capacity_pages: number of unrolls whose episodes may be drawn.
        num_pages: `capacity_pages`, and one page per entry of an online queue, which may outlive its episode.
        arena_bytes: bytes for compressed frames; 0 without images.
        fixed_bytes: bytes of everything else.
    """

    capacity_pages: int
    num_pages: int
    arena_bytes: int
    fixed_bytes: int

    @property
    def num_bytes(self) -> int:
        """Bytes of one shard."""
        return self.arena_bytes + self.fixed_bytes


def shard_sizes(spec: UnrollSpec, config: ReplayConfig, members: Sequence[MemberSettings]) -> ShardSizes:
    """Return the sizes of one of the config's shards.

    Capacities and online queues count over all shards. Each shard takes its share, rounded up to whole unrolls. The
    estimate leaves out the Python records of episodes (about 300 bytes each and 8 per unroll).
    """
    unroll_length = spec.unroll_length
    capacity_pages = -(-config.capacity_steps // (config.num_shards * unroll_length))
    num_pages = capacity_pages + sum(settings.share(config.num_shards).online_capacity for settings in members)
    rows = num_pages * unroll_length
    pages_bytes = num_pages * (spec.num_fixed_bytes + 8 + 8 + 4 + 4)
    index_bytes = rows * (4 + 4 + 4 + 8) + num_pages * (4 + 4 + 4 + 8 + 1 + 8)
    index_bytes += num_pages * (4 + 4) * (config.sequence_starts == "step")
    index_bytes += num_pages * 2 * (4 + 4) * (config.log_share is not None)
    columns = [column for settings in members for column in settings.columns]
    column_bytes = rows * (4 * len(columns) + 2 * len(members))
    column_bytes += rows * sum(bool(column.far_bound) for column in columns)  # which steps are far-policy
    kept = {kind.column: kind.bytes_per_step for kind in samplers_called(config.sampler).values()}
    column_bytes += rows * sum(kept.get(column.name, 0) for column in columns)
    column_bytes += rows * kept.get("", 0) * len(members)  # of a sampler that reads no column
    column_bytes += num_pages * 4 * sum(column.retrace is not None for column in columns)
    raw_bytes = _raw_frame_bytes(spec)
    if not raw_bytes:
        return ShardSizes(capacity_pages, num_pages, 0, pages_bytes + index_bytes + column_bytes)
    budget = frame_bytes(spec, num_pages)
    uncompressed = raw_bytes + 2 * BLOCK_BYTES * len(spec.frames)  # of one unroll
    num_held = _num_held(unroll_length, [settings.share(config.num_shards) for settings in members])
    derived = max(budget, min(num_pages * uncompressed, max(SMALL_BYTES, num_held * uncompressed)))
    arena_bytes = max(config.capacity_bytes // config.num_shards or derived, BLOCK_BYTES)
    num_blocks = arena_bytes // BLOCK_BYTES
    arena_book_bytes = num_blocks * (4 + 4) + num_pages * len(spec.frames) * (4 + 8)
    fixed_bytes = pages_bytes + index_bytes + column_bytes + arena_book_bytes
    return ShardSizes(capacity_pages, num_pages, num_blocks * BLOCK_BYTES, fixed_bytes)


def frame_bytes(spec: UnrollSpec, num_unrolls: int) -> int:
    """Return the expected bytes of compressed frames of `num_unrolls` unrolls; 0 without images."""
    return num_unrolls * _raw_frame_bytes(spec) // RAW_BYTES_PER_COMPRESSED_BYTE


def replay_bytes(spec: UnrollSpec, config: ReplayConfig, members: Sequence[MemberSettings]) -> int:
    """Return the total bytes of all shards of a config."""
    return config.num_shards * shard_sizes(spec, config, members).num_bytes


def _num_held(unroll_length: int, members: Sequence[MemberSettings]) -> int:
    """Return the unrolls that a shard must hold whatever their frames compress to, or its members wait for ever.

    Unrolls in online queues cannot be forgotten, and learners take none before `min_steps`; beside them there must be
    room for one message.
    """
    queued = [
        max(each.online_capacity, -(-each.rate.min_steps // unroll_length)) for each in members if each.online_capacity
    ]
    return sum(queued) + max((each.rate.max_insert_steps // unroll_length for each in members), default=0)


def _raw_frame_bytes(spec: UnrollSpec) -> int:
    return sum(spec.num_frames(name) * frames.num_frame_bytes for name, frames in spec.frames.items())
