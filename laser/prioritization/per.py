"""PER: items whose error was large are drawn more often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from laser.ports import ColumnSpec
from laser.prioritization.base import Prioritizer, Replayed

PRIORITY = "priority"
# What was learned perfectly can still be drawn, and so be found to be wrong again.
_LEAST = 1e-6


class Per(Prioritizer):
    """Writes |TD error| + 1e-6, or what a loss says in place of the error: the samplers `per` and `rank` draw by it.

    Losses are corrected by (N P)^-beta over the largest of the batch, where beta goes to 1.

    Source:
        Schaul et al. 2016, section 3; unrolls: Schmitt et al. 2020 (LASER), appendix A.2.
    """

    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("priority", "td_error"),)
    columns: ClassVar[tuple[ColumnSpec, ...]] = (ColumnSpec(PRIORITY, initial=1.0),)

    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Prioritizer.values`; an item whose error is not finite is as one that was never learned from."""
        errors = per_step["priority"] if "priority" in per_step else per_step["td_error"]
        (column,) = self.columns
        return {PRIORITY: errors.float().abs().nan_to_num(*[column.initial] * 3) + _LEAST}
