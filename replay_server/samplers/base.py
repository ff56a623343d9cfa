"""What a sampler is: a way to draw steps or unrolls from what is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from laser.config import Problem
from laser.prioritization.config import SamplerSettings, SamplingConfig
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import EpisodeIndex

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
    """Draws items of one view with replacement, for one member; used under the shard's lock.

    A subclass sets `name`, as users write it, and `views`, what it can draw. One file per strategy in this folder;
    `find_samplers` finds it. A class elsewhere needs no name: users give its place, `module:Name`. Two samplers may
    share a name when their views differ. What a sampler keeps beside the index it brings up to date when it hears of
    pages; most keep nothing.

    Settings of its own stand beside it, in a `SamplerSettings` that it names as its `settings_class`; it finds them in
    `self.settings`, and so does its rule.

    Args:
        index: what is stored.
        view: what it draws.
        columns: the member's.
        config: of the replay's sampling.
    """

    name: ClassVar[str] = ""
    views: ClassVar[frozenset[View]] = frozenset()
    column: ClassVar[str] = ""  # the member's column that it reads, which then must be declared
    writes: ClassVar[tuple[str, ...]] = ()  # the member's columns that it writes itself
    bytes_per_step: ClassVar[int] = 0  # about what it keeps beside
    settings_class: ClassVar[type[SamplerSettings]] = SamplerSettings
    prioritizer: ClassVar[str] = ""
    """The place, "module:Name", of the rule that writes its column; "": the one of LASER's that declares the column."""
    reads: ClassVar[tuple[str, ...] | None] = None
    """Fields of `SamplingConfig` that it or its rule reads; None: not said, so that nobody is warned."""

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: SamplingConfig):
        self.index = index
        self.view = view
        self.columns = columns
        self.settings: Any = config.own_settings

    @classmethod
    def warnings(cls, config: SamplingConfig) -> Iterator[Problem]:
        """Yield settings that have another effect than hoped for; keys are those of `config`."""
        yield from ()

    @abstractmethod
    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """Draw `num_items`; the index holds at least one step."""

    def inserted(self, pages: np.ndarray) -> None:  # noqa: B027 - most keep nothing
        """Hear that these distinct pages are new, with all their rows."""

    def forgotten(self, pages: np.ndarray) -> None:  # noqa: B027 - most keep nothing
        """Hear that some rows of these distinct pages, or all, are no longer stored."""

    def written(self, pages: np.ndarray, rows: np.ndarray, width: int) -> None:  # noqa: B027 - most keep nothing
        """Hear that columns were written, `width` rows from (pages[i], rows[i]) on."""

    def redraw(self, rng: np.random.Generator) -> None:  # noqa: B027 - most choose nothing beforehand
        """Choose anew what may be drawn at all, where that is chosen at random."""

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return 0

    def check_valid(self) -> None:  # noqa: B027 - most keep nothing
        """Assert every invariant by recounting; for tests."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return what `load_state_dict` needs."""
        return {}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:  # noqa: B027 - most keep nothing
        """Restore what `state_dict` gave; index and columns have been restored before."""
