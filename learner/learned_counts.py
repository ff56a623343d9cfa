"""How much was learned from, counted many batches at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np

from learner.mixing import Mix

# Batches that wait to be counted: one look at many costs a small agent's steps less than a look after each.
_MOST_WAITING = 64


class LearnedCounts:
    """Counts the unrolls and the valid steps of batches, `online` and `replayed` apart. Used from one thread."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, int, np.ndarray]] = []
        self._counts: Counter[str] = Counter()

    def add(self, mix: Mix) -> None:
        """Take in a batch that was learned from."""
        for source, part in (("online", mix.online), ("replayed", mix.replayed)):
            if part is not None:
                self._waiting.append((source, len(part.unrolls), part.unrolls.fields["valid"]))
        if len(self._waiting) >= _MOST_WAITING:
            self._count()

    def take(self) -> dict[str, float]:
        """Return `unrolls_learned/SOURCE` and `steps_learned/SOURCE` since the last call."""
        self._count()
        counts, self._counts = self._counts, Counter()
        return {name: float(count) for name, count in counts.items()}

    def _count(self) -> None:
        if self._waiting:  # where nothing is replayed, that is said too
            self._counts.update({"unrolls_learned/online": 0, "unrolls_learned/replayed": 0})
        for source, num_unrolls, valid in self._waiting:
            self._counts[f"unrolls_learned/{source}"] += num_unrolls
            self._counts[f"steps_learned/{source}"] += int(np.count_nonzero(valid))
        self._waiting.clear()
