"""PopArt: value targets of many scales normalised to one, without changing the critic's output."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

MIN_SCALE, MAX_SCALE = 1e-4, 1e6


class TargetStatistics(NamedTuple):
    """Running statistics of the value targets of K tasks.

    The variance is kept, and not the mean square: in float32 the difference of two large numbers would be noise.

    Args:
        mean: [K].
        variance: [K], mean square minus squared mean.
    """

    mean: Tensor
    variance: Tensor

    @property
    def scale(self) -> Tensor:
        """Standard deviation [K], kept in [1e-4, 1e6]."""
        return self.variance.clamp(MIN_SCALE**2, MAX_SCALE**2).sqrt()


@torch.no_grad()
def update_statistics(
    old: TargetStatistics, targets: Tensor, tasks: Tensor, used: Tensor, step_size: float
) -> TargetStatistics:
    """Move the statistics towards those of a batch ("ART").

        mean        <- (1 - b) mean        + b E[G]
        mean_square <- (1 - b) mean_square + b E[G^2],   b = 1 - (1 - step_size)^n

    per task, with n the number of unrolls that hold targets of that task: the step is that of n single updates with the
    batch mean. (Adding `step_size` once per target would leave nothing of the past.)

    Args:
        old: statistics before the batch.
        targets: [T, B] value targets.
        tasks: int64 [T, B] in [0, K).
        used: bool [T, B], targets that count; the others may hold anything.
        step_size: b of a single unroll.

    Source:
        Hessel et al. 2019 (multi-task PopArt), equation 6.
    """
    member = (tasks.unsqueeze(-1) == torch.arange(len(old.mean), device=tasks.device)) & used.unsqueeze(-1)
    weights = member.to(old.mean.dtype)
    counts = weights.sum((0, 1)).clamp(min=1.0)
    kept = torch.where(used, targets, 0.0)
    means = (weights * kept.unsqueeze(-1)).sum((0, 1)) / counts
    deviations = (kept.unsqueeze(-1) - means).square()
    variances = (weights * deviations).sum((0, 1)) / counts
    num_unrolls = member.any(0).sum(0).to(old.mean.dtype)
    steps = -torch.expm1(num_unrolls * math.log1p(-step_size))  # 1 - (1 - b)^n without its cancellation
    shift = means - old.mean
    return TargetStatistics(
        old.mean + steps * shift,
        (1.0 - steps) * (old.variance + steps * shift.square()) + steps * variances,
    )


@torch.no_grad()
def preserve_outputs(
    weight: Tensor, bias: Tensor, old: TargetStatistics, new: TargetStatistics
) -> tuple[Tensor, Tensor]:
    """Return the last layer rescaled so that its outputs stay the same under the new statistics ("POP").

        V = scale * (weight x + bias) + mean    is the same before and after

    Args:
        weight: [K, F].
        bias: [K].
        old: statistics before.
        new: statistics after.

    Source:
        van Hasselt et al. 2016 (PopArt), proposition 1.
    """
    ratio = old.scale / new.scale
    return weight * ratio.unsqueeze(-1), bias * ratio + (old.mean - new.mean) / new.scale
