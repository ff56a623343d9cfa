"""Settings that samplers share, and the base class of a sampler's own settings; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from laser.config import Bounds

Fraction = Bounds(least=0.0, most=1.0)
Positive = Bounds(above=0.0)


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of one sampler and its rule: a subclass beside the sampler adds the fields."""


@dataclass(frozen=True)
class LearnedConfig(SamplerSettings):
    """Settings of rules that learn from the change of the agent's return."""

    reward: Annotated[
        Literal["evaluation", "training"],
        "what the rule learns from: the change of the mean return between two evaluations, or of training episodes "
        "(then evaluation.interval is how often; 0: whenever episodes have ended)",
    ] = "evaluation"
    learning_rate: Annotated[float, Positive, "Adam's step size"] = 1e-4


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """The choice of sampler, the settings that samplers share, and the settings of a user's own sampler."""

    chooses: ClassVar[Mapping[str, str]] = {"sampler": "sampler_settings"}

    sampler: Annotated[str, "how unrolls, steps or episodes are drawn"] = "uniform"
    sequence_starts: Annotated[
        Literal["unroll", "step"],
        "where replayed sequences begin; unroll: at the first step of a stored unroll; step: at any stored step",
    ] = "unroll"
    priority_exponent: Annotated[
        float, Bounds(least=0.0, most=4.0), "alpha, on priorities, ranks or scores; 0 draws uniformly, 1 in proportion"
    ] = 0.5
    priority_uniform: Annotated[
        float, Fraction, "per, rank: share of the draws that is uniform whatever the priorities"
    ] = 0.1
    importance_exponent: Annotated[
        float, Fraction, "beta at the start: how much losses correct for uneven draws; 0: not at all, 1: fully"
    ] = 0.4
    importance_schedule: Annotated[
        Literal["constant", "linear"], "importance exponent over the run: constant, or linear to 1 over the run's steps"
    ] = "linear"
    sampler_settings: Annotated[SamplerSettings, "settings of a sampler that has no section of its own here"] = field(
        default_factory=SamplerSettings
    )

    def importance_at(self, progress: float) -> float:
        """Return the importance exponent after a fraction `progress` of the run."""
        if self.importance_schedule == "constant":
            return self.importance_exponent
        return self.importance_exponent + (1.0 - self.importance_exponent) * min(1.0, max(0.0, progress))

    @property
    def own_section(self) -> str:
        """Field with the settings of the chosen sampler: the field with its name, else `sampler_settings`."""
        own = isinstance(getattr(self, self.sampler, None), SamplerSettings)
        return self.sampler if own else "sampler_settings"

    @property
    def own_settings(self) -> SamplerSettings:
        """Settings of the chosen sampler and its rule, without those that samplers share."""
        settings: SamplerSettings = getattr(self, self.own_section)
        return settings

    @property
    def learned(self) -> LearnedConfig | None:
        """Settings of the sampler's rule if the rule learns, else None."""
        settings = self.own_settings
        return settings if isinstance(settings, LearnedConfig) else None
