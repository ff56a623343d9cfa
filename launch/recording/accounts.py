"""The accounts of unrolls that were on their way when something ended: actors that died, shards that died."""

from __future__ import annotations

from dataclasses import dataclass

from laser.replay_stats import ReplayStats


@dataclass(frozen=True)
class Ended:
    """An actor that was given up.

    Args:
        run: in the headers of its unrolls.
        actor: likewise.
        incarnations: likewise; it may have used several.
        num_reported: unrolls it said it had made.
        num_rows: rows of the unrolls it was filling, at most.
    """

    run: int
    actor: int
    incarnations: range
    num_reported: int
    num_rows: int


class Accounts:
    """Says where the unrolls of given-up actors went, and what lost shards held. Used from one thread.

    What an actor made and what the shards have heard of it differ by what was under way: unrolls that it reported and
    that never arrived are lost, and unrolls that arrived before it could report them are unreported. So, once nothing
    is under way, over all actors and all shards, those that ended as they were last seen,

        reported + unreported = inserted + rejected + lost on the way + lost in gaps.
    """

    def __init__(self) -> None:
        self._ended: list[Ended] = []
        self._shards: dict[int, ReplayStats] = {}
        self._lost_shards: set[int] = set()

    def end(self, ended: Ended) -> None:
        """Open an account: the actor makes nothing any more."""
        self._ended.append(ended)

    def look(self, stats: ReplayStats) -> None:
        """Remember what the shards say of themselves, as long as they can.

        Args:
            stats: of the replay.
        """
        for index, part in enumerate(stats.parts):
            if part is None:
                self._lost_shards.add(index)
            else:
                self._shards[index] = part
                self._lost_shards.discard(index)

    def counters(self) -> dict[str, float]:
        """Return totals by name, as of the last look; {} while nothing was lost."""
        totals: dict[str, float] = {}
        if self._ended:
            arrived = [self._num_arrived(ended) for ended in self._ended]
            pairs = [(ended.num_reported, num) for ended, num in zip(self._ended, arrived, strict=True)]
            totals["unrolls_lost/died"] = float(sum(max(0, reported - num) for reported, num in pairs))
            totals["unrolls_unreported/died"] = float(sum(max(0, num - reported) for reported, num in pairs))
            totals["dropped_rows_at_most/died"] = float(sum(ended.num_rows for ended in self._ended))
        if self._lost_shards:
            held = [self._shards[index].num_unrolls for index in self._lost_shards if index in self._shards]
            totals["shards_lost"] = float(len(self._lost_shards))
            totals["unrolls_lost/shard"] = float(sum(held))
        return totals

    def _num_arrived(self, ended: Ended) -> int:
        return sum(
            count
            for part in self._shards.values()
            for (run, actor, incarnation), count in part.arrived.items()
            if (run, actor) == (ended.run, ended.actor) and incarnation in ended.incarnations
        )
