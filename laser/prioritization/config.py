"""How replayed items are drawn, and how far uneven draws are corrected: settings, which know no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds

Fraction = Bounds(least=0.0, most=1.0)


@dataclass(frozen=True)
class SamplingConfig:
    """Which sampler, and what its rule is set to."""

    sampler: Annotated[str, "how unrolls, steps or episodes are drawn"] = "uniform"
    priority_exponent: Annotated[
        float, Bounds(least=0.0), "alpha, of priorities, ranks or scores; 0 draws uniformly, 1 in proportion"
    ] = 0.5
    priority_uniform: Annotated[
        float, Fraction, "per, rank: share of the draws that is uniform whatever the priorities"
    ] = 0.1
    importance_exponent: Annotated[
        float, Fraction, "beta at the start: how far losses correct for uneven draws; 0: not at all, 1: fully"
    ] = 0.4
    importance_schedule: Annotated[
        Literal["constant", "linear"], "of the importance exponent: constant, or linear to 1 over the run's steps"
    ] = "linear"

    def importance_at(self, progress: float) -> float:
        """Return the importance exponent after a fraction `progress` of the run."""
        if self.importance_schedule == "constant":
            return self.importance_exponent
        return self.importance_exponent + (1.0 - self.importance_exponent) * min(1.0, max(0.0, progress))
