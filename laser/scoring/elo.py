"""Elo ratings from numbers of wins: 400 points are odds of 10 to 1.

    P(i beats j) = 1 / (1 + 10^((rating_j - rating_i) / 400))

The ratings maximise the likelihood of the results (Bradley and Terry 1952); one of them is set to 0.

Source: Gruslys et al. 2017 (the Reactor), section 4.4.
"""

from __future__ import annotations

import numpy as np

_POINTS = 400.0 / np.log(10.0)
_MAX_STEP = 2.0


def count_wins(scores: np.ndarray) -> np.ndarray:
    """Return the number of games on which each algorithm beats each other one; equal scores count half for both.

    Args:
        scores: [num_algorithms, num_games].

    Returns:
        [num_algorithms, num_algorithms], row over column; 0 on the diagonal.
    """
    rows, columns = scores[:, None], scores[None]
    wins: np.ndarray = ((rows > columns) + 0.5 * (rows == columns)).sum(-1)
    np.fill_diagonal(wins, 0.0)
    return wins


def has_finite_ratings(wins: np.ndarray) -> bool:
    """Return whether ratings are finite: no group of algorithms won all games against the rest, or lost them all.

    Args:
        wins: [num_algorithms, num_algorithms], row over column.
    """
    reached = (wins > 0) | np.eye(len(wins), dtype=bool)
    for _ in range(len(wins)):
        reached = reached | (reached[:, :, None] & reached[None]).any(1)
    return bool(reached.all())


def elo_ratings(wins: np.ndarray, anchor: int, pseudo_wins: float = 0.0) -> np.ndarray:
    """Return the ratings of maximum likelihood.

    Args:
        wins: [num_algorithms, num_algorithms], how often row beat column; may be fractions. The diagonal is ignored.
        anchor: index of the algorithm with rating 0.
        pseudo_wins: wins added to every pair in both directions.

    Returns:
        [num_algorithms].

    Raises:
        ValueError: the maximum likelihood has no finite ratings; see `has_finite_ratings`.
    """
    others = ~np.eye(len(wins), dtype=bool)
    wins = np.where(others, wins + pseudo_wins, 0.0)
    if not has_finite_ratings(wins):
        raise ValueError(
            "ratings must be finite: some algorithms won every game against the others, or lost every one; "
            "use pseudo_wins 0.5"
        )
    games, won = wins + wins.T, wins.sum(1)
    free = np.arange(len(wins)) != anchor
    strengths = np.zeros(len(wins))
    for _ in range(1000):
        expected = 1.0 / (1.0 + np.exp(strengths[None] - strengths[:, None]))
        spread = games * expected * (1.0 - expected)
        curvature = np.diag(spread.sum(1)) - spread
        step = np.linalg.solve(curvature[free][:, free], (won - (games * expected).sum(1))[free])
        strengths[free] += step.clip(-_MAX_STEP, _MAX_STEP)
        if np.abs(step).max(initial=0.0) < 1e-12:
            break
    ratings: np.ndarray = strengths * _POINTS
    return ratings
