"""Samplers that are controls of NERS; `ners_controls.py` trains with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from laser.ports import ColumnSpec
from laser.prioritization import ners
from laser.prioritization.base import Lesson, Prioritizer, Replayed, ReplayReader
from laser.prioritization.config import SamplerSettings, SamplingConfig
from laser.prioritization.learned import step_numbers
from replay_server.samplers.base import View
from replay_server.samplers.ners import Ners
from replay_server.samplers.prioritized import Prioritized
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import EpisodeIndex

EARLY_STEPS = 100
"""Steps of an episode whose share of the draws is the planted return: half of those of a pendulum."""
_MOST_DEVIATIONS = 2.0
_MEMORY = 0.99  # of the running mean and variance, per update


class RandomSign(ners.Ners):
    """NERS that hears each change of the agent's return with a random sign, so that there is nothing to learn."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._signs = np.random.default_rng(self.rng.integers(2**32))

    def learn(self, replay_reward: float, reader: ReplayReader) -> Lesson | None:
        """See `LearnedPrioritizer.learn`."""
        return super().learn(float(self._signs.choice((-1.0, 1.0))) * replay_reward, reader)


class Planted(ners.Ners):
    """NERS whose return is planted: 100 times the share of draws that are among the first steps of their episode.

    The return follows from the draws alone, without any noise, and a score can depend on the step's number.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._counts = np.zeros(2)  # early draws and all draws since the last mark
        self._counts_before = np.zeros(2)  # before it, without a return yet
        self._share = np.nan

    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Prioritizer.values`."""
        numbers = replayed.sample.unrolls.headers["step_in_episode"]
        self._counts += (float((numbers < EARLY_STEPS).sum()), numbers.size)
        return super().values(replayed, per_step)

    def mark_evaluation(self) -> None:
        """See `Prioritizer.mark_evaluation`."""
        super().mark_evaluation()
        self._counts_before += self._counts
        self._counts = np.zeros(2)

    def hear(self, mean_return: float, reader: ReplayReader) -> Lesson | None:
        """See `Prioritizer.hear`; the agent's own return does not count."""
        early, drawn = self._counts_before
        self._share = early / drawn if drawn else np.nan
        self._counts_before = np.zeros(2)
        return super().hear(100.0 * self._share, reader)

    def metrics(self) -> dict[str, float]:
        """See `Prioritizer.metrics`."""
        return super().metrics() | {"sampler/early_share": float(self._share)}


class RandomSignNers(Ners):
    """The sampler `ners` with the rule `RandomSign`."""

    name: ClassVar[str] = ""
    prioritizer: ClassVar[str] = f"{__name__}:RandomSign"


class PlantedNers(Ners):
    """The sampler `ners` with the rule `Planted`."""

    name: ClassVar[str] = ""
    prioritizer: ClassVar[str] = f"{__name__}:Planted"


@dataclass(frozen=True)
class TiltSettings(SamplerSettings):
    """Settings of a fixed tilt."""

    by: Annotated[Literal["td_error", "q", "time"], "the number of a step that its draws depend on"] = "td_error"
    strength: Annotated[float, "factor of the number's deviations in the logarithm of a step's weight"] = 1.0


class Tilt(Prioritizer):
    """Writes exp(strength * z), where z is a number of the step in deviations from its running mean, within 2."""

    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("td_error",), ("q",))
    columns: ClassVar[tuple[ColumnSpec, ...]] = (ColumnSpec("tilt", 1.0),)

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._mean: Tensor | None = None
        self._variance = torch.tensor(0.0)

    @property
    def relative_weights(self) -> bool:
        """See `Prioritizer.relative_weights`: as NERS has it."""
        return False

    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Prioritizer.values`."""
        by = self.settings.by
        if by == "time":
            like = per_step["q"]
            numbers = step_numbers(replayed, like).reshape(like.shape)
        else:
            numbers = per_step[by].abs() if by == "td_error" else per_step[by]
        variance, mean = torch.var_mean(numbers)
        if self._mean is None:
            self._mean, self._variance = mean, variance
        self._mean = torch.lerp(mean, self._mean, _MEMORY)
        self._variance = torch.lerp(variance, self._variance, _MEMORY)
        deviations = (numbers - self._mean) / (self._variance.sqrt() + 1e-6)
        return {"tilt": (self.settings.strength * deviations.clamp(-_MOST_DEVIATIONS, _MOST_DEVIATIONS)).exp()}


class Tilted(Prioritized):
    """P(i) in proportion to the column "tilt"; a step never drawn has the weight 1."""

    name: ClassVar[str] = ""
    views: ClassVar[frozenset[View]] = frozenset({"steps"})
    column: ClassVar[str] = "tilt"
    prioritizer: ClassVar[str] = f"{__name__}:Tilt"
    settings_class: ClassVar[type[SamplerSettings]] = TiltSettings
    reads: ClassVar[tuple[str, ...] | None] = ("importance_exponent", "importance_schedule")

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: SamplingConfig):
        super().__init__(index, view, columns, config)
        self._exponent, self._uniform = 1.0, 0.0

    def _new_weight(self) -> float:
        return 1.0
