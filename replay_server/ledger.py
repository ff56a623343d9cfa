"""The ledger of a shard: where every unroll that reached it went."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Ledger:
    """Counters of unrolls; they only grow. Not thread-safe.

    received = inserted + duplicates + rejected + failed + pending, inserted = stored + removed. `lost` counts skipped
    sequence numbers, so that over all shards produced = inserted + rejected + lost, up to what is still on its way.

    Args:
        received: unrolls in messages.
        inserted: unrolls stored.
        duplicates: unrolls seen before.
        rejected: unrolls refused for good, by reason.
        failed: unrolls whose insert failed (deadline, closed, cancelled, too large) before anything was changed.
        lost: sequence numbers that never came, or came after a later one.
        removed: unrolls forgotten.
        sampled: items drawn from the replay.
        stale_rows: rows of column writes dropped because their page had been reused.
    """

    received: int = 0
    inserted: int = 0
    duplicates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    lost: int = 0
    removed: int = 0
    sampled: int = 0
    stale_rows: int = 0

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
