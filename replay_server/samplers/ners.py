"""NERS: steps are drawn by a score that a network beside the learner computed at their last draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from laser.config import Bounds, Problem
from laser.prioritization.config import LearnedConfig, SamplerSettings, SamplingConfig
from replay_server.samplers.base import View
from replay_server.samplers.prioritized import Prioritized
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import EpisodeIndex


@dataclass(frozen=True)
class NersConfig(LearnedConfig):
    """Settings of the neural experience replay sampler; the rule beside the learner reads them."""

    batch_size: Annotated[int, Bounds(least=2), "drawn steps per update"] = 128
    features: Annotated[Literal["all", "few"], "inputs of the score; few: only reward, TD error and time step"] = "all"
    global_context: Annotated[bool, "let a score depend on the other steps of the batch"] = True
    normalizer: Annotated[
        Literal["replay", "batch", "none"],
        "steps over which log-probabilities of draws are normalised; replay: as many steps drawn uniformly from the "
        "whole replay; batch: the drawn steps only; none: no normalisation, as in the authors' code",
    ] = "replay"
    relative_weights: Annotated[
        bool, "divide the importance weights by the largest one of the batch, as the authors' code does"
    ] = False
    bounded_twice: Annotated[
        bool,
        "bound TD error, Q target and the step's number by tanh once more, as the authors' code does; the number is "
        "then about 1 from the third step on",
    ] = False


class Ners(Prioritized):
    """P(i) = score_i^alpha / sum_j score_j^alpha, with the column "ners_score"; a step never drawn has the score 1.

    Computed scores are below 1, so new steps are drawn soon. Drawing and writing an item cost O(log N). `alpha` is
    `replay.priority-exponent`; no share of the draws is uniform.

    Source:
        Oh et al. 2021 (NERS), eq. 1 and algorithm 1.
    """

    name: ClassVar[str] = "ners"
    views: ClassVar[frozenset[View]] = frozenset({"steps"})
    column: ClassVar[str] = "ners_score"
    settings_class: ClassVar[type[SamplerSettings]] = NersConfig
    reads: ClassVar[tuple[str, ...] | None] = ("priority_exponent", "importance_exponent", "importance_schedule")

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: SamplingConfig):
        super().__init__(index, view, columns, config)
        self._uniform = 0.0

    @classmethod
    def warnings(cls, config: SamplingConfig) -> Iterator[Problem]:
        """See `Sampler.warnings`."""
        if config.priority_exponent == 0:
            yield Problem("priority-exponent", "0 draws uniformly whatever ners learns", "use 0.5, or uniform")

    def _new_weight(self) -> float:
        return 1.0
