"""NERS: steps are drawn by the score that a network beside the learner gave them when they were last drawn."""

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


class Ners(Prioritized):
    """P(i) = score_i^alpha / sum_j score_j^alpha, of the column "ners_score"; a step never drawn has the score 1.

    Scores are below 1, so that new steps are seen soon. Drawing and writing cost a logarithm. `alpha` is
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
