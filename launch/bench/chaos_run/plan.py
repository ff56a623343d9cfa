"""The plan of the faults of a run: which part is killed, which fault comes when."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PARTS = ("learner", "actor", "evaluator", "shard", "store", "driver")
"""Parts that can be killed or paused; the driver is the main process, which `--restart` starts again."""
PAUSE, FULL_DISK, CUT_CABLE = "pause", "full disk", "cut cable"
_CHANCES = {"learner": 0.2, "actor": 0.25, "evaluator": 0.1, "shard": 0.15, "store": 0.1, "driver": 0.1, PAUSE: 0.1}
_FULL_DISK_CHANCE = 0.03
_CUT_CABLE_CHANCE = 0.2
_LEAST_SHARE = 8


def endless_faults(rng: np.random.Generator, can_fill_disk: bool, can_cut_cable: bool) -> Iterator[str]:
    """Yield faults at random: the name of the part that is killed, PAUSE, FULL_DISK or CUT_CABLE."""
    chances = _CHANCES | ({CUT_CABLE: _CUT_CABLE_CHANCE} if can_cut_cable else {})
    while True:
        if can_fill_disk and rng.random() < _FULL_DISK_CHANCE:
            yield FULL_DISK
        else:
            yield _draw(chances, rng)


def planned_faults(num_kills: int, rng: np.random.Generator, can_fill_disk: bool, can_cut_cable: bool) -> list[str]:
    """Return faults in a random order: `num_kills` kills, at least an eighth of them of each part, and others.

    The others are an eighth as many pauses, as many cuts of the cable and a full disk where these are possible; at
    least one of each.
    """
    least = num_kills // _LEAST_SHARE
    killed = [part for part in PARTS for _ in range(least)]
    chances = {part: _CHANCES[part] for part in PARTS}
    killed += [_draw(chances, rng) for _ in range(num_kills - len(killed))]
    others = [*[PAUSE] * max(1, least), *[FULL_DISK] * can_fill_disk, *[CUT_CABLE] * (can_cut_cable * max(1, least))]
    faults = [*killed, *others]
    return [faults[index] for index in rng.permutation(len(faults))]


def _draw(chances: dict[str, float], rng: np.random.Generator) -> str:
    shares = np.array(list(chances.values()))
    return list(chances)[int(rng.choice(len(chances), p=shares / shares.sum()))]
