"""The accounts of unrolls that were in transit when an actor or a shard died."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from laser.replay_stats import MemberStats, ReplayStats, add_stats
from replay_server.serving.ledger import Ledger


@dataclass(frozen=True)
class Ended:
    """An actor that was given up.

    Args:
        run: run number in the headers of its unrolls.
        actor: actor number in the headers of its unrolls.
        incarnations: incarnations in the headers of its unrolls; an actor may have used several.
        num_reported: number of unrolls that it reported as made.
        num_rows: the most rows in the unrolls that it was filling.
        reason: "died", or "stopped" if it was still at work when the run ended.
    """

    run: int
    actor: int
    incarnations: range
    num_reported: int
    num_rows: int
    reason: str = "died"


class Accounts:
    """Counts the lost and unreported unrolls of given-up actors, and unrolls in lost shards. Used from one thread.

    The unrolls that an actor reported and those that arrived at the shards differ by the unrolls in transit. Reported
    unrolls that never arrived are lost. Unrolls that arrived before the actor could report them are unreported. Once
    nothing is in transit, over all actors and all shards (lost shards as they were last seen),

        reported + unreported = inserted + rejected + failed + lost in transit + lost in gaps.

    A shard that died and began again continues its ledger as it was last seen. Unrolls that it took after that never
    arrived, as far as anybody knows.
    """

    def __init__(self) -> None:
        self._ended: list[Ended] = []
        self._arrived_before: Counter[tuple[int, int, int]] = Counter()  # at shards that have begun again
        self._died_before: dict[int, int] = {}  # in earlier sessions
        self._num_begun_again = 0
        self._shards: dict[int, ReplayStats] = {}
        self._lost_shards: set[int] = set()

    def end(self, ended: Ended) -> None:
        """Open the account of an actor that makes no more unrolls."""
        self._ended.append(ended)

    def look(self, stats: ReplayStats) -> None:
        """Keep the newest statistics of each shard, for the time when it is lost.

        Args:
            stats: the replay's statistics.
        """
        for index, part in enumerate(stats.parts):
            if part is None:
                self._lost_shards.add(index)
            else:
                self._keep(index, part)

    def take_over(self, other: Accounts) -> None:
        """Take the statistics that another member saw, where they are newer than those seen here.

        A shard begins again only with what was saved before it was last seen, and only its owner looks after each save.
        """
        for index, part in other._shards.items():
            seen = self._shards.get(index)
            if seen is None or (part.life, part.ledger.inserted) > (seen.life, seen.ledger.inserted):
                self._keep(index, part)

    def give_up(self, index: int) -> None:
        """Count a shard that has ended for good: all that it held has died."""
        if index in self._shards:
            self._shards[index] = ended_for_good(self._shards[index])
        self._lost_shards.add(index)

    def complete(self, stats: ReplayStats) -> ReplayStats:
        """Return the replay's statistics with its lost shards as they were last seen."""
        parts = [self._shards.get(index) if part is None else part for index, part in enumerate(stats.parts)]
        if not stats.shards or parts == list(stats.shards):
            return stats
        return replace(add_stats(parts, stats.online_pooled), shards=stats.shards)

    @property
    def has_lost_shards(self) -> bool:
        """Whether a shard has died."""
        return bool(self._lost_shards) or self._num_begun_again > 0

    def last_seen(self, index: int) -> ReplayStats | None:
        """Return the last statistics of a shard; None if it was never seen."""
        return self._shards.get(index)

    def _keep(self, index: int, part: ReplayStats) -> None:
        before = self._shards.get(index)
        if before is None:
            self._died_before[index] = part.ledger.died
        elif part.life != before.life:
            self._arrived_before.update(before.arrived)
            self._num_begun_again += part.life - before.life
        self._shards[index] = part
        self._lost_shards.discard(index)

    def lose_all_shards(self) -> None:
        """Count every shard as lost, as it was last seen."""
        self._lost_shards.update(self._shards)

    def counters(self) -> dict[str, float]:
        """Return totals by name, as of the last statistics; {} while nothing was lost."""
        totals: dict[str, float] = {}
        for ended in self._ended:
            missing = self.num_missing(ended)
            for name, num in (
                ("unrolls_lost", max(0, missing)),
                ("unrolls_unreported", max(0, -missing)),
                ("dropped_rows_at_most", ended.num_rows),
            ):
                key = f"{name}/{ended.reason}"
                totals[key] = totals.get(key, 0.0) + num
        num_lost = self._num_begun_again + len(self._lost_shards)
        if num_lost:
            held = [self._shards[index].num_unrolls for index in self._lost_shards if index in self._shards]
            died = [part.ledger.died - self._died_before[index] for index, part in self._shards.items()]
            totals["shards_lost"] = float(num_lost)
            totals["unrolls_lost/shard"] = float(sum(held) + sum(died))
        return totals

    def num_missing(self, ended: Ended) -> int:
        """Return how many of an actor's reported unrolls have not arrived; negative: arrived but not reported."""
        return ended.num_reported - self._num_arrived(ended)

    def _num_arrived(self, ended: Ended) -> int:
        return sum(
            count
            for arrived in (self._arrived_before, *(part.arrived for part in self._shards.values()))
            for (run, actor, incarnation), count in arrived.items()
            if (run, actor) == (ended.run, ended.actor) and incarnation in ended.incarnations
        )


def ended_for_good(shard: ReplayStats) -> ReplayStats:
    """Return the statistics of a shard that has ended: its counts, and what it held as died."""
    ledger = Ledger()
    ledger.succeed(shard.ledger, shard.waiting_unrolls, 0, is_restored=False)
    return ReplayStats(
        ledger=ledger.counts(),
        imbalances=shard.imbalances,
        arrived=shard.arrived,
        members={number: _without_queue(member) for number, member in shard.members.items()},
        life=shard.life,
    )


def _without_queue(member: MemberStats) -> MemberStats:
    dropped = Counter(member.online_dropped)
    if member.online_queued:
        dropped["shard_died"] += member.online_queued
    return replace(member, online_queued=0, online_dropped=dropped, limiter_difference=0.0)
