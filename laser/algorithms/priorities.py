"""Priorities: what algorithms share that tell the replay how much there was to learn from an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from laser.algorithms.base import AlgorithmConfig, Fraction
from laser.ports import ColumnSpec

PRIORITY = "priority"


@dataclass(frozen=True)
class PrioritizedConfig(AlgorithmConfig):
    """Settings of algorithms that can write priorities."""

    prioritize: Annotated[
        bool, "write the error of each replayed step or unroll to the replay, for --replay.sampler prioritized"
    ] = False
    importance_exponent: Annotated[
        float, Fraction, "with prioritize: how far the loss corrects for uneven draws; 0: not at all, 1: fully"
    ] = 1.0

    @property
    def draw_correction(self) -> float:
        """See `AlgorithmConfig.draw_correction`."""
        return self.importance_exponent if self.prioritize else 0.0

    @property
    def priority_columns(self) -> tuple[ColumnSpec, ...]:
        """The column of priorities, where they are written."""
        return (ColumnSpec(PRIORITY, initial=1.0),) if self.prioritize else ()


def priorities(errors: Tensor) -> Tensor:
    """Return what a replay takes as priorities: magnitudes without gradients; 0 where an error is not finite."""
    return errors.detach().abs().nan_to_num(0.0, 0.0, 0.0)
