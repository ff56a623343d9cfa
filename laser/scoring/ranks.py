"""Comparisons independent of reward scales: ranks per game, and winning probabilities.

Source: Gruslys et al. 2017 (the Reactor), sections 4.1 and 4.4.
"""

from __future__ import annotations

import numpy as np


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """Return each algorithm's mean rank over games, 1 for the best; equal scores share the mean of their ranks.

    Args:
        scores: [num_algorithms, num_games], finite.

    Returns:
        [num_algorithms].
    """
    # An algorithm ranks behind all better ones, and in the middle of all equal ones, which include itself.
    better = (scores[None] > scores[:, None]).sum(1)
    equal = (scores[None] == scores[:, None]).sum(1)
    result: np.ndarray = (better + (equal + 1) / 2).mean(-1)
    return result


def winning_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the probability that a run of one algorithm beats a run of another on a random game.

    All pairs of seeds are compared within each game, equal scores count half, and games are averaged.

    Args:
        scores: [num_algorithms, num_games, num_seeds, ...]; further axes, such as time, are kept.

    Returns:
        [num_algorithms, num_algorithms, ...], row against column; 0.5 on the diagonal.
    """
    rows, columns = scores[:, None, :, :, None], scores[None, :, :, None, :]
    wins = (rows > columns) + 0.5 * (rows == columns)  # [a1, a2, game, seed1, seed2, ...]
    result: np.ndarray = wins.mean((2, 3, 4))
    return result


def mean_winning_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Return the probability that each algorithm beats another one drawn at random.

    Args:
        probabilities: [num_algorithms, num_algorithms, ...] from `winning_probabilities`; at least two algorithms.

    Returns:
        [num_algorithms, ...].
    """
    num_algorithms = len(probabilities)
    itself = np.moveaxis(np.diagonal(probabilities), -1, 0)
    result: np.ndarray = (probabilities.sum(1) - itself) / (num_algorithms - 1)
    return result
