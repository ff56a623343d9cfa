"""The ledger of a shard: where every unroll that reached it went."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from laser.replay_stats import LedgerCounts


@dataclass
class Ledger(LedgerCounts):
    """Counters of unrolls; they only grow. Not thread-safe.

    received = inserted + duplicates + rejected + failed + pending, inserted = stored + removed. `lost` counts skipped
    sequence numbers, so that over all shards produced = inserted + rejected + lost, up to what is still on its way.
    """

    def counts(self) -> LedgerCounts:
        """Return the counts as they are now."""
        return LedgerCounts(**{**vars(self), "rejected": Counter(self.rejected)})

    def imbalances(self, num_pending: int, num_stored: int) -> dict[str, int]:
        """Return the two balances, which are 0.

        Args:
            num_pending: unrolls in inserts that wait.
            num_stored: pages in use.
        """
        accounted = self.inserted + self.duplicates + self.rejected.total() + self.failed + num_pending
        return {"received": self.received - accounted, "inserted": self.inserted - num_stored - self.removed}

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs."""
        return {**asdict(self), "rejected": dict(self.rejected)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, Counter(value) if name == "rejected" else value)
