"""The ledger of a shard: accounts for every unroll that reached it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from laser.replay_stats import LedgerCounts

_BY_REASON = ("rejected", "failed")


@dataclass
class Ledger(LedgerCounts):
    """Counters of unrolls; they only grow. Not thread-safe.

    received = inserted + duplicates + rejected + failed + pending, inserted = stored + removed + not saved + died.
    `lost` counts skipped sequence numbers, so that over all shards produced = inserted + rejected + failed + lost, up
    to unrolls still in transit.
    """

    def counts(self) -> LedgerCounts:
        """Return a copy of the current counts."""
        return LedgerCounts(**{**vars(self), **{name: Counter(getattr(self, name)) for name in _BY_REASON}})

    def imbalances(self, num_pending: int, num_stored: int) -> dict[str, int]:
        """Return by how much the two balances are off, which is 0.

        Args:
            num_pending: unrolls in pending inserts.
            num_stored: pages in use.
        """
        accounted = self.inserted + self.duplicates + self.rejected.total() + self.failed.total() + num_pending
        kept = num_stored + self.removed + self.not_saved + self.died
        return {"received": self.received - accounted, "inserted": self.inserted - kept}

    def saved(self, num_pending: int, num_stored: int = 0) -> Ledger:
        """Return the ledger as a checkpoint holds it: what the checkpoint leaves out is counted under a reason.

        Args:
            num_pending: unrolls in pending inserts, which are never saved.
            num_stored: pages in use that are not saved.
        """
        saved = Ledger(**vars(self.counts()))
        if num_pending:
            saved.failed["not_saved"] += num_pending
        saved.not_saved += num_stored
        return saved

    def holding(self, num_stored: int, older: LedgerCounts) -> Ledger:
        """Return this ledger for a shard that holds what an older state of it held.

        What went in since then counts as not saved.

        Args:
            num_stored: unrolls that are stored.
            older: the counts of the older state.
        """
        ledger = Ledger(**vars(self.counts()))
        if num_stored:
            ledger.removed, ledger.died = older.removed, older.died
        ledger.not_saved = ledger.inserted - num_stored - ledger.removed - ledger.died
        return ledger

    def succeed(self, dead: LedgerCounts, num_pending: int, num_stored: int, is_restored: bool) -> None:
        """Continue the ledger of a shard that died, as it was last seen.

        What it had stored and its successor has not is counted as died. Its pending inserts count as never received:
        the accounts of their actors count them as lost on the way.

        Args:
            dead: the dead shard's counts.
            num_pending: unrolls in its pending inserts.
            num_stored: unrolls that are stored now.
            is_restored: they come from a saved state, with whose counts of removed unrolls they go.
        """
        removed, not_saved = (self.removed, self.not_saved) if is_restored else (dead.removed, dead.not_saved)
        self.load_state_dict(Ledger(**vars(dead)).state_dict())
        self.received -= num_pending
        self.removed, self.not_saved = removed, not_saved
        self.died = self.inserted - num_stored - removed - not_saved

    def add(self, other: LedgerCounts) -> None:
        """Add the counts of another ledger."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {**asdict(self), **{name: dict(getattr(self, name)) for name in _BY_REASON}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        for name, value in state.items():
            if name in _BY_REASON:
                # Checkpoints had one number of failed inserts before there were reasons.
                value = Counter({"unknown": value} if isinstance(value, int) else value)
            setattr(self, name, value)
