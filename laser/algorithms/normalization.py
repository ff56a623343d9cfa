"""Normalisation of observations and rewards to unit size, by statistics of the replay or of what came fresh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laser.specs import ObservationSpec, VectorSpec

EPSILON = 1e-7

# Avoids huge values of a component that hardly varied while the replay was filled.
MAX_STANDARD = 20.0

# Sums of squares of larger numbers overflow in float32, and statistics that are not finite stay so.
_MOST = 1e15


class VectorNormalizer(nn.Module):
    """Standardises vector observations. All its numbers are buffers.

        s^ = (s - mean) / (std + epsilon), within [-20, 20]

    Args:
        observations: specs by name.
    """

    epsilon: float = EPSILON

    def __init__(self, observations: Mapping[str, ObservationSpec]):
        super().__init__()
        # Numbered: names of buffers must not have dots.
        self._names = [name for name, spec in observations.items() if isinstance(spec, VectorSpec)]
        for number, name in enumerate(self._names):
            spec = observations[name]
            assert isinstance(spec, VectorSpec)
            self.register_buffer(f"mean_{number}", torch.zeros(spec.shape))
            self.register_buffer(f"std_{number}", torch.ones(spec.shape))

    def forward(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the observations with their vectors standardised; any leading axes."""
        standard = dict(observations)
        for number, name in enumerate(self._names):
            mean, std = self._of(number)
            standard[name] = ((observations[name] - mean) / (std + self.epsilon)).clamp_(-MAX_STANDARD, MAX_STANDARD)
        return standard

    def _of(self, number: int) -> tuple[Tensor, Tensor]:
        return getattr(self, f"mean_{number}"), getattr(self, f"std_{number}")


class RunningNormalizer(VectorNormalizer):
    """Standardises vector observations by mean and deviation of all that were counted so far."""

    epsilon = 1e-4
    """Of a component that never changes, rounding must not become a signal."""
    count: Tensor

    def __init__(self, observations: Mapping[str, ObservationSpec]):
        super().__init__(observations)
        self.register_buffer("count", torch.zeros(()))

    @torch.no_grad()
    def updates(self, observations: Mapping[str, Tensor], counted: Tensor) -> dict[str, Tensor]:
        """Return the new buffers by name, after a batch.

        Args:
            observations: [T, B, ...] by name.
            counted: bool [T, B], rows to count; the others may hold anything.

        Source:
            Chan, Golub and LeVeque 1979: the variances of two sets of numbers merged.
        """
        num = counted.sum().to(self.count.dtype)
        total = self.count + num
        share = num / total.clamp(min=1.0)
        found = {"count": total}
        for number, name in enumerate(self._names):
            mean, std = self._of(number)
            rows = counted.reshape(*counted.shape, *[1] * mean.ndim)
            values = torch.where(rows, observations[name].clamp(-_MOST, _MOST), 0.0)
            batch_mean = values.sum((0, 1)) / num.clamp(min=1.0)
            batch_variance = torch.where(rows, values - batch_mean, 0.0).square().sum((0, 1)) / num.clamp(min=1.0)
            difference = batch_mean - mean
            variance = (1.0 - share) * std.square() + share * (batch_variance + (1.0 - share) * difference.square())
            found |= {f"mean_{number}": mean + share * difference, f"std_{number}": variance.sqrt()}
        return found


class Normalizer(VectorNormalizer):
    """Standardises vector observations by statistics of the replay, and holds the size of rewards.

        r^ = r / (sqrt(mean r^2) + 1e-7)

    Rewards are scaled and not centred: subtracting a mean would change what is best where episodes vary in length.

    Args:
        observations: specs by name.

    Source:
        Novati and Koumoutsakos 2019 (ReF-ER), appendix C.
    """

    reward_scale: Tensor

    def __init__(self, observations: Mapping[str, ObservationSpec]):
        super().__init__(observations)
        self.register_buffer("reward_scale", torch.ones(()))

    def observation_updates(self, statistics: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return new buffers for observations by name, from `replay_server.derived.step_sums` of the whole replay."""
        count = max(1.0, float(statistics["num_steps"]))
        updates = {}
        for number, name in enumerate(self._names):
            mean = np.asarray(statistics[f"observation/{name}"]) / count
            squares = np.asarray(statistics[f"observation_squares/{name}"]) / count
            updates[f"mean_{number}"] = _finite(mean)
            updates[f"std_{number}"] = _finite(np.sqrt(np.maximum(squares - mean**2, 0.0)))
        return updates

    def reward_updates(self, statistics: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the new size of rewards, by name; 1 while all rewards are 0, so that their size is unknown."""
        count = max(1.0, float(statistics["num_steps"]))
        if statistics["reward_squares"] <= 0.0:
            return {"reward_scale": torch.ones(())}
        return {"reward_scale": _finite(np.sqrt(statistics["reward_squares"] / count) + EPSILON)}


def _finite(values: Any) -> Tensor:
    limit = np.finfo(np.float32).max / 4
    return torch.tensor(np.nan_to_num(np.asarray(values, np.float64), nan=0.0).clip(-limit, limit)).float()
