"""The plan of the faults of a run: which part is killed, which fault comes when."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PARTS = ("learner", "actor", "evaluator", "shard", "store", "driver")
"""Parts that can be killed or paused; the driver is the main process, which `--restart` starts again."""
PAUSE, FULL_DISK = "pause", "full disk"
_CHANCES = {"learner": 0.2, "actor": 0.25, "evaluator": 0.1, "shard": 0.15, "store": 0.1, "driver": 0.1, PAUSE: 0.1}
_FULL_DISK_CHANCE = 0.03
_LEAST_SHARE = 8


def endless_faults(rng: np.random.Generator, can_fill_disk: bool) -> Iterator[str]:
    """Yield faults at random: the name of the part that is killed, PAUSE or FULL_DISK."""
    while True:
        if can_fill_disk and rng.random() < _FULL_DISK_CHANCE:
            yield FULL_DISK
        else:
            yield _draw(_CHANCES, rng)


def planned_faults(num_kills: int, rng: np.random.Generator, can_fill_disk: bool) -> list[str]:
    """Return faults in a random order: `num_kills` kills, at least an eighth of them of each part, and others.

    The others are an eighth as many pauses, and a full disk where that is possible; at least one of each.
    """
    least = num_kills // _LEAST_SHARE
    killed = [part for part in PARTS for _ in range(least)]
    chances = {part: _CHANCES[part] for part in PARTS}
    killed += [_draw(chances, rng) for _ in range(num_kills - len(killed))]
    faults = [*killed, *[PAUSE] * max(1, least), *[FULL_DISK] * can_fill_disk]
    return [faults[index] for index in rng.permutation(len(faults))]


def _draw(chances: dict[str, float], rng: np.random.Generator) -> str:
    shares = np.array(list(chances.values()))
    return list(chances)[int(rng.choice(len(chances), p=shares / shares.sum()))]
