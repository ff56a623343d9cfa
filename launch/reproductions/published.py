"""Numbers of the papers' tables that the package has already, as those of figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laser.scoring.published import LASER_TABLE_2
from laser.scoring.published_reactor import AGENTS, REACTOR_TABLE_2, find_human_start_scores
from laser.scoring.scores import atari_id
from launch.reproductions.figure import Number

_FRAMES_PER_STEP = 4
_AMONG_AGENTS = ("reactor/table-2", "reactor/table-5")
_ARE_RANKED = ("random", "human")
"""Whom every standing of normalised scores has."""


def published_numbers(name: str) -> tuple[Number, ...]:
    """Return the numbers of a figure by its name; () for those whose numbers stand in their own file."""
    if name in _AMONG_AGENTS:
        return tuple(_reactor_table_2())
    return tuple(_laser_table_2()) if name == "laser/table-2" else ()


def published_scores(name: str, games: Sequence[str]) -> dict[str, list[float]]:
    """Return the normalised score on each game of the other agents that a figure ranks, by the agent's name.

    They are normalised by random play and people of the same table, as ours are by those of no-op starts. Where people
    score less than random play (video_pinball), by the size of the difference, so that more stays better.

    Args:
        name: of the figure.
        games: environment ids; {} is returned unless the table has all of them.
    """
    rows = [find_human_start_scores(game) for game in games] if name in _AMONG_AGENTS else []
    if not rows or None in rows:
        return {}
    others = [agent for agent in AGENTS if agent not in (*_ARE_RANKED, "Reactor")]
    return {
        agent: [(row[agent] - row["random"]) / abs(row["human"] - row["random"]) for row in rows if row is not None]
        for agent in others
    }


def _reactor_table_2() -> Iterator[Number]:
    for agent, standing in REACTOR_TABLE_2.items():
        if agent not in _ARE_RANKED:
            note = f"median; mean rank {standing.mean_rank:g}, Elo {standing.elo:g}"
            yield Number(agent, standing.median, note=note)


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
