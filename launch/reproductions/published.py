"""Numbers of the papers' tables that the package has already, as those of figures."""

from __future__ import annotations

from collections.abc import Iterator

from laser.scoring.published import LASER_TABLE_2
from laser.scoring.scores import atari_id
from launch.reproductions.figure import Number

_FRAMES_PER_STEP = 4


def published_numbers(name: str) -> tuple[Number, ...]:
    """Return the numbers of a figure by its name; () for those whose numbers stand in their own file."""
    return tuple(_laser_table_2()) if name == "laser/table-2" else ()


def _laser_table_2() -> Iterator[Number]:
    for name, scores in LASER_TABLE_2.items():
        game = atari_id(name)
        for arm, value, millions in (
            ("a replay each", scores.laser_50m, 50),
            ("one shared replay", scores.laser_shared_50m, 50),
            ("one shared replay", scores.laser_shared_200m, 200),
            ("Rainbow", scores.rainbow_200m, 200),
        ):
            if value is not None:
                at = millions * 1_000_000 // _FRAMES_PER_STEP
                yield Number(arm, value, game, note=f"at {millions}M frames", at=at)
