"""Counts of the unrolls and steps learned from, computed many batches at a time."""

from __future__ import annotations

import numpy as np

from learner.experience.mixing import Mix

# Batches counted at once: counting many together costs a small agent less time per update than one after the other.
_MOST_WAITING = 32


class Consumption:
    """Counts the unrolls and the valid steps of batches, `online` and `replayed` separately. Used from one thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[np.ndarray]] = {"online": [], "replayed": []}
        self._num_waiting = 0
        self._counts: dict[str, float] = {}

    def add(self, mix: Mix) -> None:
        """Count a batch that was learned from."""
        if mix.online is not None:
            self._waiting["online"].append(mix.online.unrolls.fields["valid"])
        if mix.replayed is not None:
            self._waiting["replayed"].append(mix.replayed.unrolls.fields["valid"])
        self._num_waiting += 1
        if self._num_waiting >= _MOST_WAITING:
            self._count()

    def take(self) -> dict[str, float]:
        """Return `unrolls_learned/SOURCE` and `steps_learned/SOURCE` since the last call; {} without batches."""
        self._count()
        counts, self._counts = self._counts, {}
        return counts

    def _count(self) -> None:
        if not self._num_waiting:
            return
        for source, waiting in self._waiting.items():
            num_unrolls = sum(map(len, waiting))
            num_steps = np.count_nonzero(np.concatenate(waiting)) if waiting else 0
            for name, count in (("unrolls_learned", num_unrolls), ("steps_learned", num_steps)):
                key = f"{name}/{source}"
                self._counts[key] = self._counts.get(key, 0.0) + float(count)
            waiting.clear()
        self._num_waiting = 0
