"""A sampler of your own: newer experience is drawn more often; a setting determines how much more.

python own_sampler.py
laser train cartpole --replay.sampler own_sampler:Recent --replay.sampler-settings.half-life 500
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

import laser
from laser.config import Bounds
from laser.prioritization.config import SamplerSettings
from replay_server.samplers import Draw, Sampler, View
from replay_server.storage.episode_index import NO_EPISODE


@dataclass(frozen=True)
class RecentSettings(SamplerSettings):
    """Settings, each with its range and a sentence of help; every one needs a default."""

    half_life: Annotated[int, Bounds(least=1), "newer unrolls after which an item is drawn half as often"] = 200


class Recent(Sampler):
    """P(item) ~ 0.5^(age / half-life), where the age of an item is the number of unrolls that came after its own.

    A draw costs time in proportion to the number of stored items. With the weights in a sum tree
    (`replay_server/samplers/sum_tree.py`) a draw costs a logarithm of that number.
    """

    views: ClassVar[frozenset[View]] = frozenset({"steps", "unrolls"})
    settings_class: ClassVar[type[SamplerSettings]] = RecentSettings

    def draw(self, num_items: int, rng: np.random.Generator) -> Draw:
        """Return items drawn with replacement, and the probability of each."""
        index = self.index
        pages = index.live_pages.items  # a page holds one unroll
        ages = index.order[pages].max() - index.order[pages]
        weights = 0.5 ** (ages / self.settings.half_life)[:, None]
        num_stored = len(pages)
        if self.view == "steps":  # rows that hold no step cannot be drawn
            weights = weights * (index.episode_of_row[pages] != NO_EPISODE)
            num_stored = index.num_steps
        sums = np.cumsum(weights)
        items = np.searchsorted(sums, rng.random(num_items) * sums[-1], side="right")
        places, rows = np.divmod(items, weights.shape[1])
        return Draw(pages[places], rows, weights.reshape(-1)[items] / sums[-1], num_stored)


def main(**values: Any) -> laser.TrainResult:
    """Train on CartPole; `values` change the preset as the command line's flags do."""
    settings = {"replay.sampler": "own_sampler:Recent", "replay.sampler_settings.half_life": 500}
    return laser.train(laser.load_preset("cartpole", {"steps": 30_000, **settings, **values}))


if __name__ == "__main__":
    main()
