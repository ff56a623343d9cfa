"""How old the experience of recent batches was, as quantiles."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

# Newest batches between two reports that count: a bound on memory, and more do not sharpen the quantiles.
_MOST_BATCHES = 200
_QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "max": 1.0}


class AgeQuantiles:
    """Collects the ages of items by name and summarises them as `<name>/p10`, `p50`, `p90` and `max`.

    A mean hides what matters here: a replay of mostly fresh experience with a long tail, and one of middling age, have
    the same. Used from one thread.
    """

    def __init__(self) -> None:
        self._ages: defaultdict[str, deque[np.ndarray]] = defaultdict(lambda: deque(maxlen=_MOST_BATCHES))

    def add(self, name: str, ages: np.ndarray) -> None:
        """Take in the ages of one batch, any shape and unit; kept until the next `take`."""
        if ages.size:
            self._ages[name].append(ages.ravel())

    def take(self) -> dict[str, float]:
        """Return the quantiles since the last call, and begin anew; names without any age are left out."""
        taken: dict[str, float] = {}
        for name, parts in self._ages.items():
            if parts:
                # An age that occurred, not one in between: versions and steps are counts.
                values = np.quantile(np.concatenate(parts), list(_QUANTILES.values()), method="inverted_cdf")
                taken |= {f"{name}/{key}": float(value) for key, value in zip(_QUANTILES, values, strict=True)}
                parts.clear()
        return taken
