"""What a sampler is: a way to draw steps or unrolls from what is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from replay_server.episodes import EpisodeIndex

View = Literal["unrolls", "steps"]


@dataclass(frozen=True)
class Draw:
    """N drawn items.

    Args:
        pages: int32 [N].
        rows: int64 [N], the drawn step of the page; 0 for whole unrolls.
        probabilities: float64 [N], with which each item was drawn, in this shard.
        num_stored: items the draw was made from.
    """

    pages: np.ndarray
    rows: np.ndarray
    probabilities: np.ndarray
    num_stored: int


class Sampler(ABC):
    """Draws items with replacement. Stateless apart from what the index holds; used under the shard's lock.

    A subclass sets `name`, as users write it, and `views`, what it can draw. One file per strategy in this folder;
    `find_samplers` finds it. Two samplers may share a name when their views differ.
    """

    name: ClassVar[str] = ""
    views: ClassVar[frozenset[View]] = frozenset()

    @abstractmethod
    def draw(self, index: EpisodeIndex, view: View, num_items: int, rng: np.random.Generator) -> Draw:
        """Draw `num_items` of `view`; the index holds at least one step."""
