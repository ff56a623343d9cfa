"""How replayed items are drawn, and how far uneven draws are corrected: settings, which know no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from laser.config import Bounds, Problem, find_unused

Fraction = Bounds(least=0.0, most=1.0)
Positive = Bounds(above=0.0)
# Our samplers that go by nothing that is written.
_EVEN = ("uniform", "episodes", "episodes_by_length")


@dataclass(frozen=True)
class LearnedConfig:
    """Settings of rules that learn from whether the agent has become better."""

    reward: Annotated[
        Literal["evaluation", "training"],
        "what the rule learns from: the change of the mean return between two evaluations, or of training episodes "
        "(then evaluation.interval is how often; 0: whenever episodes have ended)",
    ] = "evaluation"
    learning_rate: Annotated[float, Positive, "Adam's step size"] = 1e-4


@dataclass(frozen=True)
class EroConfig(LearnedConfig):
    """Settings of experience replay optimisation."""

    batch_size: Annotated[int, Bounds(least=1), "steps per update, drawn uniformly from the whole replay"] = 64
    num_updates: Annotated[int, Bounds(least=1), "updates each time it learns"] = 1


@dataclass(frozen=True)
class NersConfig(LearnedConfig):
    """Settings of the neural experience replay sampler; the defaults are what the paper means."""

    batch_size: Annotated[int, Bounds(least=2), "drawn steps that one update is from"] = 128
    features: Annotated[Literal["all", "few"], "what scores are made of; few: reward, TD error and time step alone"] = (
        "all"
    )
    global_context: Annotated[bool, "let a score depend on the other steps of the batch"] = True
    normalizer: Annotated[
        Literal["replay", "batch", "none"],
        "what log-probabilities of draws are normalised over; replay: as many steps drawn uniformly from all that is "
        "stored; batch: the drawn steps alone; none: the authors' code",
    ] = "replay"
    relative_weights: Annotated[
        bool, "divide the loss's corrections by their largest in the batch, as the authors' code does"
    ] = False


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Which sampler, and what its rule is set to."""

    sampler: Annotated[str, "how unrolls, steps or episodes are drawn"] = "uniform"
    priority_exponent: Annotated[
        float, Bounds(least=0.0, most=4.0), "alpha, of priorities, ranks or scores; 0 draws uniformly, 1 in proportion"
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
    ero: Annotated[EroConfig, "experience replay optimisation"] = field(default_factory=EroConfig)
    ners: Annotated[NersConfig, "neural experience replay sampler"] = field(default_factory=NersConfig)

    def importance_at(self, progress: float) -> float:
        """Return the importance exponent after a fraction `progress` of the run."""
        if self.importance_schedule == "constant":
            return self.importance_exponent
        return self.importance_exponent + (1.0 - self.importance_exponent) * min(1.0, max(0.0, progress))

    def unused(self) -> Iterator[Problem]:
        """Yield settings of other samplers than the one that draws; nothing is known of samplers that are not ours."""
        rules: dict[str, LearnedConfig] = {"ero": self.ero, "ners": self.ners}
        if self.sampler not in (*rules, *_EVEN, "per", "rank"):
            return
        why = f"{self.sampler} draws"
        for name, settings in rules.items():
            if name != self.sampler:
                names = [item.name for item in fields(settings)]
                yield from find_unused(settings, f"replay.{name}", names, why, f"use --replay.sampler {name}")
        names = ["priority_exponent", "priority_uniform", "importance_exponent", "importance_schedule"]
        if self.sampler == "ners":
            yield from find_unused(self, "replay", ["priority_uniform"], why + " by its scores", "use per or rank")
        if self.sampler in (*_EVEN, "ero"):
            why += " without priorities"
            yield from find_unused(self, "replay", names, why, "leave it out, or use per, rank or ners")

    @property
    def learned(self) -> LearnedConfig | None:
        """Settings of the sampler's rule, if it is one that learns."""
        learned: dict[str, LearnedConfig] = {"ero": self.ero, "ners": self.ners}
        return learned.get(self.sampler)
