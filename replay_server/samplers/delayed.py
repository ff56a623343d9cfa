"""Delayed unrolls: what is drawn was made a chosen number of versions ago, which shows what stale experience does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from laser.config import Bounds
from laser.prioritization.config import SamplerSettings
from replay_server.samplers.base import Draw, Sampler, View


@dataclass(frozen=True)
class DelayedSettings(SamplerSettings):
    """Settings of delayed draws."""

    versions: Annotated[
        int, Bounds(least=0), "least age of what is drawn: versions of the parameters since it was made"
    ] = 0
    window: Annotated[int, Bounds(least=1), "how many ages in a row are drawn, from the least one on"] = 16


class Delayed(Sampler):
    """P(unroll) = 1 / number of unrolls whose age lies in [versions, versions + window).

    An unroll's age is the newest stored version of the parameters minus the version that acted at its first step.
    Without an unroll of such an age, which is so at the start of a run, those nearest to it are drawn: the oldest ones
    while everything is too young, the youngest ones where everything that is left is too old. A publication makes a
    version; with `learner.publish-interval` 1 an update does. Versions of several members are numbered alike and not
    told apart. O(N).
    """

    name: ClassVar[str] = "delayed"
    views: ClassVar[frozenset[View]] = frozenset({"unrolls"})
    settings_class: ClassVar[type[SamplerSettings]] = DelayedSettings
    reads: ClassVar[tuple[str, ...] | None] = ()

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        # Sorted: the order of the set depends on what was forgotten, which a restored replay need not repeat.
        stored = np.sort(self.index.live_pages.items)
        versions = self.index.pages.headers["parameter_version"][stored]
        distances = _distances(versions.max() - versions, self.settings.versions, self.settings.window)
        near = stored[distances == distances.min()]
        pages = near[rng.integers(len(near), size=num_items)]
        return Draw(pages, np.zeros(num_items, np.int64), np.full(num_items, 1.0 / len(near)), len(stored))


def _distances(ages: np.ndarray, least: int, window: int) -> np.ndarray:
    """Return how far each age lies from [least, least + window), in versions; int64 [N]."""
    distances: np.ndarray = np.maximum(np.maximum(least - ages, ages - (least + window - 1)), 0)
    return distances
