"""Elo ratings against known numbers, the definition, and the Reactor paper's own table."""

import numpy as np
import pytest

from laser.scoring.elo import count_wins, elo_ratings, has_finite_ratings
from laser.scoring.published_reactor import AGENTS, REACTOR_TABLE_2, REACTOR_TABLE_4, find_human_start_scores
from laser.scoring.ranks import mean_ranks
from laser.scoring.scores import ATARI57

WINS = np.array([[0.0, 30, 40], [27, 0, 35], [17, 22, 0]])
SCORES = np.array([list(row.values()) for row in REACTOR_TABLE_4.values()]).T


def test_known_ratings():
    np.testing.assert_allclose(elo_ratings(WINS, 0), [0, -33.71, -130.71], atol=0.005)
    np.testing.assert_allclose(elo_ratings(WINS, 2), [130.71, 97.0, 0], atol=0.005)


def test_400_points_are_odds_of_ten_to_one():
    assert elo_ratings(np.array([[0.0, 10], [1, 0]]), 1).tolist() == pytest.approx([400, 0])


def test_expected_wins_are_the_wins_there_were():
    """What makes them the likeliest: each one's expected number of wins is the number it has."""
    generator = np.random.default_rng(0)
    wins = generator.integers(1, 60, (7, 7)).astype(float)
    ratings = elo_ratings(wins, 3)
    for one in range(7):
        expected = sum(
            (wins[one, other] + wins[other, one]) / (1 + 10 ** ((ratings[other] - ratings[one]) / 400))
            for other in range(7)
            if other != one
        )
        assert expected == pytest.approx(wins[one].sum() - wins[one, one], abs=1e-8)
    assert ratings[3] == 0.0


def test_wins_are_counted_game_by_game():
    scores = np.array([[1.0, 5.0, 3.0], [2.0, 5.0, 1.0]])
    assert count_wins(scores).tolist() == [[0, 1.5], [1.5, 0]]


def test_who_always_wins_has_no_rating_unless_helped():
    wins = np.array([[0.0, 5, 5], [0, 0, 3], [0, 2, 0]])
    assert not has_finite_ratings(wins)
    with pytest.raises(ValueError, match=r"ratings must be finite.*use pseudo_wins 0\.5"):
        elo_ratings(wins, 0)
    helped = elo_ratings(wins, 0, pseudo_wins=0.5)
    assert np.isfinite(helped).all()
    assert helped[0] > helped[1] > helped[2]
    assert has_finite_ratings(np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]]))  # in a circle


def test_the_papers_table_2_comes_out_of_its_table_4():
    ranks, elo = mean_ranks(SCORES), elo_ratings(count_wins(SCORES), AGENTS.index("human"))
    for place, agent in enumerate(AGENTS):
        printed = REACTOR_TABLE_2[agent]
        assert ranks[place] == pytest.approx(printed.mean_rank, abs=0.0151), agent
        assert elo[place] == pytest.approx(printed.elo, abs=6), agent


def test_the_papers_normalised_scores_come_out_too():
    random, human = SCORES[:2]
    # Where people score less than random play, the paper divides by their score alone.
    normalised = (SCORES - random) / np.where(human > random, human - random, human)
    for place, agent in enumerate(AGENTS):
        if agent != "human":
            assert np.median(normalised[place]) == pytest.approx(REACTOR_TABLE_2[agent].median, abs=0.006), agent
            assert normalised[place].mean() == pytest.approx(REACTOR_TABLE_2[agent].mean, abs=0.006), agent


def test_every_game_is_there_under_its_name():
    assert set(REACTOR_TABLE_4) == set(ATARI57)
    assert find_human_start_scores("ALE/SpaceInvaders-v5")["Reactor"] == 1704.8
    assert find_human_start_scores("CartPole-v1") is None
