"""The ledger of a shard: accounts for every unroll that reached it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from laser.replay_stats import LedgerCounts


@dataclass
class Ledger(LedgerCounts):
    """Counters of unrolls; they only grow. Not thread-safe.

    received = inserted + duplicates + rejected + failed + pending, inserted = stored + removed. `lost` counts skipped
    sequence numbers, so that over all shards produced = inserted + rejected + lost, up to unrolls still in transit.
    """

    def counts(self) -> LedgerCounts:
        """Return a copy of the current counts."""
        return LedgerCounts(**{**vars(self), "rejected": Counter(self.rejected)})

    def imbalances(self, num_pending: int, num_stored: int) -> dict[str, int]:
        """Return by how much the two balances are off, which is 0.

        Args:
            num_pending: unrolls in pending inserts.
            num_stored: pages in use.
        """
        accounted = self.inserted + self.duplicates + self.rejected.total() + self.failed + num_pending
        return {"received": self.received - accounted, "inserted": self.inserted - num_stored - self.removed}

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {**asdict(self), "rejected": dict(self.rejected)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        for name, value in state.items():
            setattr(self, name, Counter(value) if name == "rejected" else value)
