"""NERS: steps are drawn by the score that a network beside the learner gave them when they were last drawn."""

from __future__ import annotations

from typing import ClassVar

from replay_server.columns import Columns
from replay_server.config import ReplayConfig
from replay_server.episodes import EpisodeIndex
from replay_server.samplers.base import View
from replay_server.samplers.prioritized import Prioritized


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

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: ReplayConfig):
        super().__init__(index, view, columns, config)
        self._uniform = 0.0

    def _new_weight(self) -> float:
        return 1.0
