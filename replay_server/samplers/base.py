"""The interface of samplers, which draw stored steps or unrolls."""

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
from replay_server.storage.log_parts import Part

View = Literal["unrolls", "steps", "sequences"]


@dataclass(frozen=True)
class Draw:
    """N drawn items.

    Args:
        pages: int32 [N].
        rows: int64 [N], the drawn step of the page, or the first one of a sequence; 0 for whole unrolls.
        probabilities: float64 [N], the probability of each item, in this shard.
        num_stored: number of items the draw was made from.
    """

    pages: np.ndarray
    rows: np.ndarray
    probabilities: np.ndarray
    num_stored: int


class Sampler(ABC):
    """Draws items of one view with replacement, for one member; used under the shard's lock.

    A subclass sets `name`, as users write it, and `views`, the views that it can draw. One file per strategy in this
    folder; `find_samplers` finds it. A class elsewhere needs no name: users write `module:Name`. Two samplers may share
    a name when their views differ. A sampler with state of its own updates that state in `inserted`, `forgotten` and
    `written`; most samplers have none.

    A sampler's own settings are a `SamplerSettings` in the same file, named by `settings_class`. The sampler and its
    rule read them from `self.settings`.

    Args:
        index: the stored episodes.
        view: the view to draw.
        columns: of the member.
        config: of the replay's sampling.
    """

    name: ClassVar[str] = ""
    views: ClassVar[frozenset[View]] = frozenset()
    column: ClassVar[str] = ""  # the member's column that it reads; the member must declare it
    writes: ClassVar[tuple[str, ...]] = ()  # the member's columns that it writes itself
    bytes_per_step: ClassVar[int] = 0  # approximate memory of its own state
    settings_class: ClassVar[type[SamplerSettings]] = SamplerSettings
    prioritizer: ClassVar[str] = ""
    """The rule that writes its column, "module:Name"; "": the rule of LASER that declares the column."""
    reads: ClassVar[tuple[str, ...] | None] = None
    """Fields of `SamplingConfig` that it or its rule reads; None: unknown, so unused fields cause no warnings."""

    def __init__(self, index: EpisodeIndex, view: View, columns: Columns, config: SamplingConfig):
        self.index = index
        self.view = view
        self.columns = columns
        self.settings: Any = config.own_settings

    @classmethod
    def warnings(cls, config: SamplingConfig) -> Iterator[Problem]:
        """Yield settings that have an unexpected effect; keys are those of `config`."""
        yield from ()

    @classmethod
    def draws_parts(cls) -> bool:
        """Return whether its `draw_part` belongs to its `draw`: one that is inherited knows nothing of a new `draw`."""
        of_part, of_all = (next(kind for kind in cls.__mro__ if name in vars(kind)) for name in ("draw_part", "draw"))
        return of_part is not Sampler and issubclass(of_part, of_all)

    @abstractmethod
    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """Draw `num_items`; the index holds at least one step."""

    def draw_part(self, part: Part, num_items: int, rng: np.random.Generator) -> Draw:
        """Draw from one part of what is stored, as `draw` would if nothing else were; the part holds an item.

        Only for `replay.log-share`; a sampler without it is refused there.
        """
        raise NotImplementedError(f"{self.name} draws no parts")

    def inserted(self, pages: np.ndarray) -> None:  # noqa: B027 - most keep nothing
        """Add these distinct new pages, with all their rows."""

    def forgotten(self, pages: np.ndarray) -> None:  # noqa: B027 - most keep nothing
        """Drop the rows of these distinct pages that are no longer stored, some or all."""

    def written(self, pages: np.ndarray, rows: np.ndarray, width: int) -> None:  # noqa: B027 - most keep nothing
        """Update after a column write of `width` rows from (pages[i], rows[i]) on."""

    def redraw(self, rng: np.random.Generator) -> None:  # noqa: B027 - most choose nothing beforehand
        """Choose anew the steps that may be drawn, if the sampler chooses them at random."""

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return 0

    def check_valid(self) -> None:  # noqa: B027 - most keep nothing
        """Assert every invariant by recounting; for tests."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the sampler's own state."""
        return {}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:  # noqa: B027 - most keep nothing
        """Restore a state from `state_dict`; index and columns must be restored before."""
