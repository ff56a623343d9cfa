"""Statistics of a replay: contents of one shard or of all shards together, and counts of what passed through."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Record = TypeVar("Record")


@dataclass
class LedgerCounts:
    """Counters of unrolls; they only grow.

    Args:
        received: unrolls in messages.
        inserted: unrolls stored.
        duplicates: unrolls seen before.
        rejected: unrolls refused for good, by reason.
        failed: unrolls whose insert failed before it changed anything, by reason.
        lost: sequence numbers that never arrived, or arrived after a later one.
        removed: unrolls removed from the replay.
        not_saved: unrolls stored when a checkpoint without the replay was written from which the run continued.
        died: unrolls stored in a shard whose process died, which its successor lacks.
        sampled: items drawn from the replay.
        stale_rows: rows of column writes dropped because their page had been reused.
    """

    received: int = 0
    inserted: int = 0
    duplicates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    removed: int = 0
    not_saved: int = 0
    died: int = 0
    sampled: int = 0
    stale_rows: int = 0


@dataclass(frozen=True)
class MemberStats:
    """Counters of one member's use of a replay.

    Args:
        online_inserted: unrolls put into its online queue.
        online_handed_out: unrolls that its learner took from that queue.
        online_queued: unrolls that wait in the queue.
        online_dropped: unrolls dropped from the queue, by reason.
        inserted_steps: env steps that its rate limiter has let in.
        sampled_steps: env steps drawn for its learner.
        limiter_difference: the difference that its rate limiter keeps within bounds.
    """

    online_inserted: int = 0
    online_handed_out: int = 0
    online_queued: int = 0
    online_dropped: Mapping[str, int] = field(default_factory=dict)
    inserted_steps: int = 0
    sampled_steps: int = 0
    limiter_difference: float = 0.0


@dataclass(frozen=True)
class ItemCounts:
    """Numbers of items that may be drawn, by view."""

    unrolls: int = 0
    steps: int = 0
    streams: int = 0
    sequences: int = 0

    def of(self, view: str) -> int:
        """Return the number of items of a view."""
        number: int = getattr(self, view)
        return number


@dataclass(frozen=True)
class ReplayStats:
    """Counters and sizes of a shard, or of all living shards together.

    Args:
        ledger: outcomes of all unrolls that arrived.
        imbalances: differences between the two sides of each ledger, by ledger; all must be 0.
        arrived: unrolls by origin: (run, actor, incarnation).
        num_unrolls: unrolls stored, including those that only an online queue still holds.
        num_steps: env steps stored.
        num_episodes: episodes stored, finished or not.
        num_stored: items that may be drawn.
        streams: number of open episode streams, and of those that ended, by reason.
        capacity_steps: capacity in env steps.
        frame_bytes: bytes of compressed frames stored.
        frame_capacity_bytes: capacity for compressed frames, in bytes.
        memory_bytes: bytes of memory held in total.
        waiting_inserts: inserts that wait for room.
        waiting_unrolls: unrolls in these inserts.
        waiting_samples: draws that wait.
        members: counters by member number.
        life: number of earlier processes of the shard, which died.
        process: usage of the shard's process, by gauge, if the shard has a process of its own.
        online_pooled: fresh unrolls that shards handed out and that wait for a whole batch.
        shards: for all shards together, the statistics of each; None for a shard that does not answer.
        num_stored_log: items of `num_stored` that are of a log; 0 in a replay that does not split them from the rest.
    """

    ledger: LedgerCounts = field(default_factory=LedgerCounts)
    imbalances: Mapping[str, int] = field(default_factory=dict)
    arrived: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    num_unrolls: int = 0
    num_steps: int = 0
    num_episodes: int = 0
    num_stored: ItemCounts = field(default_factory=ItemCounts)
    streams: Mapping[str, int] = field(default_factory=dict)
    capacity_steps: int = 0
    frame_bytes: int = 0
    frame_capacity_bytes: int = 0
    memory_bytes: int = 0
    waiting_inserts: int = 0
    waiting_unrolls: int = 0
    waiting_samples: int = 0
    members: Mapping[int, MemberStats] = field(default_factory=dict)
    life: int = 0
    process: Mapping[str, float] = field(default_factory=dict)
    online_pooled: int = 0
    shards: tuple[ReplayStats | None, ...] = ()
    num_stored_log: ItemCounts = field(default_factory=ItemCounts)

    @property
    def parts(self) -> tuple[ReplayStats | None, ...]:
        """The statistics of each shard; for a single shard, these statistics alone."""
        return self.shards or (self,)


def add_stats(shards: Sequence[ReplayStats | None], online_pooled: int) -> ReplayStats:
    """Return the sum over all shards that answered; at least one must have.

    Args:
        shards: statistics of each shard; None for a shard that does not answer.
        online_pooled: see `ReplayStats`.
    """
    total: ReplayStats = _sum([part for part in shards if part is not None])
    return dataclasses.replace(total, process={}, online_pooled=online_pooled, shards=tuple(shards))


def _sum(parts: Sequence[Any]) -> Any:
    """Add numbers, mappings key by key, and records field by field."""
    first = parts[0]
    if dataclasses.is_dataclass(first):
        names = [item.name for item in dataclasses.fields(first) if item.name != "shards"]
        return dataclasses.replace(first, **{name: _sum([getattr(part, name) for part in parts]) for name in names})  # type: ignore[type-var]
    if isinstance(first, Mapping):
        keys = {key: None for part in parts for key in part}
        total = {key: _sum([part[key] for part in parts if key in part]) for key in keys}
        return Counter(total) if isinstance(first, Counter) else total
    return sum(parts)
