"""The accounts of unrolls that were on their way when something ended: actors that died, shards that died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    """Says where the unrolls of given-up actors went. Used from one thread.

    What an actor made and what the shards have heard of it differ by what was under way: unrolls that it reported and
    that never arrived are lost, and unrolls that arrived before it could report them are unreported. So, once nothing
    is under way, over all actors

        reported + unreported = inserted + rejected + lost on the way + lost in gaps.
    """

    def __init__(self) -> None:
        self._ended: list[Ended] = []

    def end(self, ended: Ended) -> None:
        """Open an account: the actor makes nothing any more."""
        self._ended.append(ended)

    def counters(self, stats: dict[str, Any]) -> dict[str, float]:
        """Return totals by name, as far as the replay's statistics know now; {} while no actor was given up.

        Args:
            stats: of all shards together (see `replay_server.shard.Shard.stats`).
        """
        if not self._ended:
            return {}
        lost = unreported = rows = 0
        for ended in self._ended:
            arrived = sum(
                count
                for (run, actor, incarnation), count in stats["arrived"].items()
                if (run, actor) == (ended.run, ended.actor) and incarnation in ended.incarnations
            )
            lost += max(0, ended.num_reported - arrived)
            unreported += max(0, arrived - ended.num_reported)
            rows += ended.num_rows
        return {
            "unrolls_lost/died": float(lost),
            "unrolls_unreported/died": float(unreported),
            "dropped_rows_at_most/died": float(rows),
        }
