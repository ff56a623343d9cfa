"""Gauges of the replay: its fill, its pace, its episode streams and its two ledgers."""

from __future__ import annotations

from collections import Counter

from laser.replay_stats import MemberStats, ReplayStats
from launch.recording.recorder import Snapshot


class ReplayGauges:
    """Turns the replay's statistics into gauges of one member. Used from one thread.

    Prefixes of names: `replay/` fill and pace, `streams/` episode streams, `ledger/` numbers of unrolls by their fate,
    `throughput/` env steps/s since the previous statistics, `process/` shards in processes of their own. The values are
    gauges and not counters, because a lost shard takes its counts with it.

    Args:
        member: number of the member whose online queue and limiter are read.
    """

    def __init__(self, member: int):
        self._member = member
        self._before: tuple[float, dict[str, float]] | None = None

    def gauges(self, stats: ReplayStats, now_s: float) -> dict[str, float]:
        """Return gauges by name.

        Args:
            stats: statistics of one shard or of all.
            now_s: time of the statistics in seconds, any clock.
        """
        member = stats.members[self._member]
        values: dict[str, float] = {f"replay/{name}": getattr(stats, name) for name in _SIZES} | {
            "replay/online_queued": member.online_queued + stats.online_pooled,
            "replay/limiter_difference": member.limiter_difference,
            "replay/waiting_inserts": stats.waiting_inserts,
            "replay/waiting_samples": stats.waiting_samples,
            "replay/shards_alive": sum(part is not None for part in stats.parts),
        }
        if member.inserted_steps:
            values["replay/samples_per_insert"] = member.sampled_steps / member.inserted_steps
        if any(stats.streams.values()):
            values |= {f"streams/{name}": count for name, count in stats.streams.items()}
        values |= self._rates(member, now_s) | _ledgers(stats, member)
        for index, part in enumerate(stats.parts):
            if part is not None:
                values |= {f"process/shard/{index}/{name}": value for name, value in part.process.items()}
        return {name: float(value) for name, value in values.items()}

    def _rates(self, member: MemberStats, now_s: float) -> dict[str, float]:
        totals = {"inserting": float(member.inserted_steps), "sampling": float(member.sampled_steps)}
        before, self._before = self._before, (now_s, totals)
        if before is None or now_s <= before[0]:
            return {}
        span_s = now_s - before[0]
        growth = {name: total - before[1][name] for name, total in totals.items()}
        # The counts of a lost shard are gone, so the totals fall; the next statistics give a rate again.
        return {f"throughput/{name}": steps / span_s for name, steps in growth.items() if steps >= 0.0}


_SIZES = (
    "num_steps",
    "capacity_steps",
    "num_unrolls",
    "num_episodes",
    "memory_bytes",
    "frame_bytes",
    "frame_capacity_bytes",
)


_MADE = "unrolls"  # an actor's counter
_ENDED = ("unrolls_lost", "unrolls_unreported")  # counters by reason, see `launch.recording.accounts`
_REASONS = ("rejected/", "failed/", "lost", "duplicates", "not_saved", "died", "online/dropped/")


def summarise_ledger(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Return a run's ledger for its result: numbers of unrolls by name, in three groups.

    `stages` counts the unrolls that passed each stage, `reasons` those that did not get on, by reason, and `imbalance`
    the differences that must be 0. Empty before the replay's first statistics.
    """
    ledger = {name.removeprefix("ledger/"): int(n) for name, n in snapshot.gauges.items() if name[:7] == "ledger/"}
    if not ledger:
        return {"stages": {}, "reasons": {}, "imbalance": {}}
    imbalance = {name.removeprefix("imbalance/"): n for name, n in ledger.items() if name.startswith("imbalance/")}
    reasons = {name: n for name, n in ledger.items() if name.startswith(_REASONS)}
    reasons |= {name: int(n) for name, n in snapshot.counters.items() if name.startswith(_ENDED)}
    stages = {name: n for name, n in ledger.items() if name not in reasons and not name.startswith("imbalance/")}
    return {
        "stages": {"made": int(snapshot.counters.get(_MADE, 0.0)), **stages},
        "reasons": reasons,
        "imbalance": imbalance,
    }


def _ledgers(stats: ReplayStats, member: MemberStats) -> dict[str, float]:
    """Return both ledgers in unrolls: the replay's storage, over all members, and the member's online queue."""
    dropped = member.online_dropped
    values: dict[str, float] = {"ledger/stored": stats.num_unrolls, "ledger/waiting": stats.waiting_unrolls}
    for name, count in vars(stats.ledger).items():
        if isinstance(count, Counter):
            values |= {f"ledger/{name}": count.total()} | {f"ledger/{name}/{reason}": n for reason, n in count.items()}
        else:
            values[f"ledger/{name}"] = count
    values |= {
        "ledger/online/inserted": member.online_inserted,
        "ledger/online/handed_out": member.online_handed_out,
        "ledger/online/queued": member.online_queued,
    }
    values |= {"ledger/online/dropped": sum(dropped.values())}
    values |= {f"ledger/online/dropped/{reason}": count for reason, count in dropped.items()}
    return values | {f"ledger/imbalance/{name}": count for name, count in stats.imbalances.items()}
