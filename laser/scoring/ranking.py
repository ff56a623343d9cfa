"""Ranking of agents over games: mean ranks and Elo ratings, the best first.

Source: Gruslys et al. 2017 (the Reactor), sections 4.1 and 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from laser.scoring.elo import count_wins, elo_ratings, has_finite_ratings
from laser.scoring.ranks import mean_ranks


@dataclass(frozen=True)
class Ranking:
    """A ranking of agents over the same games, by mean rank, the best first.

    Args:
        mean_ranks: mean rank by agent; 1 would be the best on every game.
        elo: Elo rating by agent.
        pseudo_wins: wins added to each pair in both directions, if ratings of few games would be infinite.
    """

    mean_ranks: dict[str, float]
    elo: dict[str, float]
    pseudo_wins: float


def rank_agents(names: Sequence[str], scores: np.ndarray, zero: str | None = None) -> Ranking:
    """Return the ranking of agents.

    Args:
        names: names of the agents.
        scores: [num_agents, num_games], finite.
        zero: agent with an Elo rating of 0; None: the agent ranked last.
    """
    ranks, wins = mean_ranks(scores), count_wins(scores)
    order = [int(place) for place in np.argsort(ranks, kind="stable")]
    pseudo_wins = 0.0 if has_finite_ratings(wins) else 0.5
    elo = elo_ratings(wins, order[-1] if zero is None else names.index(zero), pseudo_wins)
    return Ranking(
        {names[place]: float(ranks[place]) for place in order},
        {names[place]: float(elo[place]) for place in order},
        pseudo_wins,
    )
