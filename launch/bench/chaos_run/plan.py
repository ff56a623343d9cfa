"""The plan of the faults of a run: which part is killed, which fault comes when."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

PARTS = ("learner", "actor", "evaluator", "shard", "store", "driver")
"""Parts that can be killed or paused; the driver is the main process, which `--restart` starts again."""
PAUSE, FULL_DISK, CUT_CABLE = "pause", "full disk", "cut cable"
_CHANCES = {"learner": 0.2, "actor": 0.25, "evaluator": 0.1, "shard": 0.15, "store": 0.1, "driver": 0.1}
_PAUSE_CHANCE = 0.1
_FULL_DISK_CHANCE = 0.03
_CUT_CABLE_CHANCE = 0.2
_LEAST_SHARE = 8


def endless_faults(rng: np.random.Generator, others: Collection[str]) -> Iterator[str]:
    """Yield faults at random: the name of the part that is killed, or one of the others.

    Args:
        rng: chooses.
        others: of PAUSE, FULL_DISK and CUT_CABLE those that are possible.
    """
    chances = _CHANCES | {
        fault: chance for fault, chance in ((PAUSE, _PAUSE_CHANCE), (CUT_CABLE, _CUT_CABLE_CHANCE)) if fault in others
    }
    while True:
        if FULL_DISK in others and rng.random() < _FULL_DISK_CHANCE:
            yield FULL_DISK
        else:
            yield _draw(chances, rng)


def planned_faults(num_kills: int, rng: np.random.Generator, others: Collection[str]) -> list[str]:
    """Return faults in a random order: `num_kills` kills, at least an eighth of them of each part, and others.

    The others are an eighth as many pauses, as many cuts of the cable and a full disk, those of them that are possible;
    at least one of each.
    """
    least = num_kills // _LEAST_SHARE
    killed = [part for part in PARTS for _ in range(least)]
    killed += [_draw(_CHANCES, rng) for _ in range(num_kills - len(killed))]
    nums = {PAUSE: max(1, least), FULL_DISK: 1, CUT_CABLE: max(1, least)}
    faults = [*killed, *(fault for fault, num in nums.items() if fault in others for _ in range(num))]
    return [faults[index] for index in rng.permutation(len(faults))]


def _draw(chances: dict[str, float], rng: np.random.Generator) -> str:
    shares = np.array(list(chances.values()))
    return list(chances)[int(rng.choice(len(chances), p=shares / shares.sum()))]
