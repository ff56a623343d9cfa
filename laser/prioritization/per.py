"""PER: items with large errors are drawn more often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from laser.ports import ColumnSpec
from laser.prioritization.base import Prioritizer, Replayed

PRIORITY = "priority"
# Items with an error of 0 can still be drawn, and so be found wrong again.
_LEAST = 1e-6


class Per(Prioritizer):
    """Writes |TD error| + 1e-6, or the priority of the loss in place of the error, for the samplers `per` and `rank`.

    Losses are corrected by (N P)^-beta, divided by the largest correction of the batch, where beta goes to 1.

    Source:
        Schaul et al. 2016, section 3; unrolls: Schmitt et al. 2020 (LASER), appendix A.2.
    """

    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("priority", "td_error"),)
    columns: ClassVar[tuple[ColumnSpec, ...]] = (ColumnSpec(PRIORITY, initial=1.0),)

    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Prioritizer.values`; an item with an error that is not finite gets the column's initial value."""
        errors = per_step["priority"] if "priority" in per_step else per_step["td_error"]
        (column,) = self.columns
        return {PRIORITY: errors.float().abs().nan_to_num(*[column.initial] * 3) + _LEAST}
