"""A sampler and its prioritizer, in one file: steps that went better than expected are drawn more often.

python own_prioritizer.py
laser train sac_pendulum --replay.sampler own_prioritizer:Signed --replay.sampler-settings.negative-weight 0.1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

import laser
from laser.config import Bounds
from laser.ports import ColumnSpec
from laser.prioritization.base import Prioritizer, Replayed
from laser.prioritization.config import SamplerSettings
from replay_server.samplers import View
from replay_server.samplers.prioritized import Prioritized


@dataclass(frozen=True)
class SignedSettings(SamplerSettings):
    """Settings of the sampler and its prioritizer; both read them from `self.settings`."""

    negative_weight: Annotated[
        float, Bounds(least=0.0, most=1.0), "priority of a negative error, over that of a positive error of this size"
    ] = 0.2


class Signed(Prioritized):
    """PER's sampler over a column of its own; it works in the replay's shards."""

    views: ClassVar[frozenset[View]] = frozenset({"steps", "unrolls"})
    column: ClassVar[str] = "signed_priority"
    settings_class: ClassVar[type[SamplerSettings]] = SignedSettings
    prioritizer: ClassVar[str] = "own_prioritizer:SignedRule"


class SignedRule(Prioritizer):
    """Writes the column after every update; it works beside the learner."""

    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("td_error",),)
    columns: ClassVar[tuple[ColumnSpec, ...]] = (ColumnSpec("signed_priority", initial=1.0),)

    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the priorities of the items of this update: finite and not negative."""
        errors = per_step["td_error"].float().nan_to_num(1.0, 1.0, 1.0)
        priorities = torch.where(errors > 0, errors, -self.settings.negative_weight * errors)
        return {"signed_priority": priorities + 1e-6}  # an item without error can still be drawn


def main(**values: Any) -> laser.TrainResult:
    """Train on Pendulum; `values` change the preset as the command line's flags do."""
    return laser.train(laser.load_preset("sac_pendulum", {"replay.sampler": "own_prioritizer:Signed", **values}))


if __name__ == "__main__":
    main()
