"""Comparisons that scales of reward do not touch: ranks per game, and who beats whom how often.

Source: Gruslys et al. 2017 (the Reactor), sections 4.1 and 4.4.
"""

from __future__ import annotations

import numpy as np


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """Return each algorithm's rank, 1 for the best, on average over games; equal scores share their ranks' mean.

    Args:
        scores: [num_algorithms, num_games], finite.

    Returns:
        [num_algorithms].
    """
    # An algorithm's place is behind all that are better, and amid those that are equal, itself among them.
    better = (scores[None] > scores[:, None]).sum(1)
    equal = (scores[None] == scores[:, None]).sum(1)
    result: np.ndarray = (better + (equal + 1) / 2).mean(-1)
    return result


def winning_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return how likely a run of one algorithm scores more than a run of another, on a game drawn at random.

    All pairs of seeds are compared within each game, equal scores count half, and games are averaged.

    Args:
        scores: [num_algorithms, num_games, num_seeds, ...]; what follows, such as time, is kept.

    Returns:
        [num_algorithms, num_algorithms, ...], row against column; 0.5 of each against itself.
    """
    rows, columns = scores[:, None, :, :, None], scores[None, :, :, None, :]
    wins = (rows > columns) + 0.5 * (rows == columns)  # [a1, a2, game, seed1, seed2, ...]
    result: np.ndarray = wins.mean((2, 3, 4))
    return result


def mean_winning_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Return how likely each algorithm beats another one drawn at random.

    Args:
        probabilities: [num_algorithms, num_algorithms, ...] of `winning_probabilities`; at least two algorithms.

    Returns:
        [num_algorithms, ...].
    """
    num_algorithms = len(probabilities)
    itself = np.moveaxis(np.diagonal(probabilities), -1, 0)
    result: np.ndarray = (probabilities.sum(1) - itself) / (num_algorithms - 1)
    return result
