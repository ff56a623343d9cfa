"""Ranks and winning probabilities against literal loops."""

import numpy as np
import pytest

from laser.scoring.ranks import mean_ranks, mean_winning_probabilities, winning_probabilities


def test_the_best_is_number_one_and_equals_share():
    scores = np.array([[3.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, 5.0]])
    assert mean_ranks(scores).tolist() == [(1 + 3) / 2, (2 + 3) / 2, (3.5 + 3) / 2, (3.5 + 1) / 2]
    assert mean_ranks(np.array([[1.0], [2.0], [3.0]])).tolist() == [3, 2, 1]


def test_ranks_do_not_see_scales():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(5, 9))
    assert np.array_equal(mean_ranks(scores), mean_ranks(np.exp(10 * scores)))
    assert mean_ranks(scores).sum() == pytest.approx(15)


def literal(scores):
    num_algorithms, num_games, num_seeds, num_times = scores.shape
    total = np.zeros((num_algorithms, num_algorithms, num_times))
    for one in range(num_algorithms):
        for other in range(num_algorithms):
            for time in range(num_times):
                by_game = []
                for game in range(num_games):
                    wins = 0.0
                    for seed in range(num_seeds):
                        for against in range(num_seeds):
                            a, b = scores[one, game, seed, time], scores[other, game, against, time]
                            wins += 1.0 if a > b else 0.5 if a == b else 0.0
                    by_game.append(wins / num_seeds**2)
                total[one, other, time] = sum(by_game) / num_games
    return total


def test_winning_probabilities_are_over_pairs_of_seeds_then_games():
    scores = np.random.default_rng(1).integers(0, 4, (3, 5, 4, 2)).astype(float)
    got = winning_probabilities(scores)
    np.testing.assert_allclose(got, literal(scores), atol=1e-12)
    np.testing.assert_allclose(got + got.swapaxes(0, 1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(got[0, 1, 1], winning_probabilities(scores[..., 1])[0, 1])
    expected = [(got[0, 1] + got[0, 2]) / 2, (got[1, 0] + got[1, 2]) / 2, (got[2, 0] + got[2, 1]) / 2]
    np.testing.assert_allclose(mean_winning_probabilities(got), expected, atol=1e-12)
    assert not np.allclose(got, 0.5)
