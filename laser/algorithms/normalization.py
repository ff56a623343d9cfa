"""Normalisation of observations and rewards to unit size, by statistics of the replay."""

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


class Normalizer(nn.Module):
    """Standardises vector observations and holds the size of rewards. All its numbers are buffers.

        s^ = (s - mean) / (std + 1e-7)           r^ = r / (sqrt(mean r^2) + 1e-7)

    Rewards are scaled and not centred: subtracting a mean would change what is best where episodes vary in length.

    Args:
        observations: specs by name.

    Source:
        Novati and Koumoutsakos 2019 (ReF-ER), appendix C.
    """

    reward_scale: Tensor

    def __init__(self, observations: Mapping[str, ObservationSpec]):
        super().__init__()
        # Numbered: names of buffers must not have dots.
        self._names = [name for name, spec in observations.items() if isinstance(spec, VectorSpec)]
        for number, name in enumerate(self._names):
            spec = observations[name]
            assert isinstance(spec, VectorSpec)
            self.register_buffer(f"mean_{number}", torch.zeros(spec.shape))
            self.register_buffer(f"std_{number}", torch.ones(spec.shape))
        self.register_buffer("reward_scale", torch.ones(()))

    def forward(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the observations with their vectors standardised; any leading axes."""
        standard = dict(observations)
        for number, name in enumerate(self._names):
            mean, std = getattr(self, f"mean_{number}"), getattr(self, f"std_{number}")
            standard[name] = ((observations[name] - mean) / (std + EPSILON)).clamp_(-MAX_STANDARD, MAX_STANDARD)
        return standard

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
