import pytest

from laser.scoring.published_reactor import AGENTS, REACTOR_TABLE_4
from laser.scoring.scores import atari_id
from launch.evaluation.standing import THIS, find_standing, rank_words


def returns_of(agent, num_games=57, factor=1.0):
    games = list(REACTOR_TABLE_4)[:num_games]
    return {atari_id(game): factor * REACTOR_TABLE_4[game][agent] for game in games}


def test_an_agent_that_plays_like_another_stands_beside_it():
    standing = find_standing(returns_of("DQN"))
    assert standing.num_games == 57
    assert standing.ranking.pseudo_wins == 0.0
    assert standing.ranking.elo["human"] == 0.0
    assert standing.ranking.elo[THIS] == pytest.approx(standing.ranking.elo["DQN"])
    assert standing.ranking.mean_ranks[THIS] == pytest.approx(standing.ranking.mean_ranks["DQN"])
    assert list(standing.ranking.mean_ranks) == sorted(standing.ranking.mean_ranks, key=standing.ranking.mean_ranks.get)
    assert standing.ranking.elo["random"] < standing.ranking.elo[THIS] < 0 < standing.ranking.elo["Reactor"]
    lines = standing.lines()
    assert len(lines) == 2 + len(AGENTS) + 1 + 1
    assert any("Reactor" in line and "3.40" in line and "81" in line for line in lines)
    assert "Reactor L TISLR 1.72" in lines[-1]


def test_few_games_still_give_ratings():
    standing = find_standing({"ALE/Pong-v5": 21.0, "CartPole-v1": 500.0})
    assert standing.num_games == 1
    assert standing.ranking.pseudo_wins == 0.5
    assert next(iter(standing.ranking.elo)) == THIS
    assert find_standing({"CartPole-v1": 500.0}) is None


@pytest.mark.parametrize(("score", "place"), [(30.0, 1), (19.0, 2), (18.95, 2), (-30.0, 9)])
def test_one_game_is_ranked_in_words(score, place):
    words = rank_words("ALE/Pong-v5", score)
    assert words.endswith(f"number {place} of 9")
    assert "human 15.5" in words
    assert rank_words("CartPole-v1", 1.0) is None
