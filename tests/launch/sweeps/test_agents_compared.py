import itertools
from types import SimpleNamespace

import pytest

from laser.evaluation.scores import find_reference
from launch.evaluation.evaluation_result import TaskResult
from launch.sweeps.agents_compared import HUMAN, compare_agents

CATCH, MAZE = "mini/Catch-v0", "mini/TMaze10-v0"
PONG = "ALE/Pong-v5"


def played(agent, game, score, seed=0):
    """One run: the mean return of an agent on a game."""
    result = SimpleNamespace(tasks=[TaskResult(game, [score], [1])])
    return {"preset": agent, "env": game, "seed": str(seed)}, result


def runs(scores):
    """Members from {agent: {game: scores by seed}}."""
    return [
        played(agent, game, score, seed)
        for agent, games in scores.items()
        for game, values in games.items()
        for seed, score in enumerate(values)
    ]


SCORES = {
    "laser": {CATCH: [1.0, 3.0], MAZE: [5.0, 5.0]},
    "acer": {CATCH: [2.0, 2.5], MAZE: [5.0, 4.0]},
    "reactor": {CATCH: [0.0, 0.0], MAZE: [9.0, 1.0]},
}


def literal_winning(agent):
    """Wins over all others, games and pairs of seeds, one pair after the other."""
    results = []
    for other, game in itertools.product([name for name in SCORES if name != agent], [CATCH, MAZE]):
        for one, two in itertools.product(SCORES[agent][game], SCORES[other][game]):
            results.append(1.0 if one > two else 0.5 if one == two else 0.0)
    return sum(results) / len(results)


def test_ranks_ratings_and_winning_over_games_and_seeds():
    found = compare_agents(runs(SCORES))
    assert (found.games, found.num_seeds) == ([CATCH, MAZE], 2)
    # Means: catch 2, 2.25, 0; maze 5, 4.5, 5.
    assert found.ranking.mean_ranks == {"preset=laser": 1.75, "preset=acer": 2.0, "preset=reactor": 2.25}
    for agent in SCORES:
        assert found.winning[f"preset={agent}"] == pytest.approx(literal_winning(agent))
    assert found.ranking.elo["preset=reactor"] == 0.0, "there is no person, so the last one is at zero"
    assert found.ranking.elo["preset=laser"] > 0.0
    words = "\n".join(found.lines())
    assert "over 2 games, 2 seeds each" in words
    assert all(agent in words for agent in SCORES)


def test_the_human_is_at_zero_where_all_games_have_human_scores():
    human = find_reference(PONG).human
    found = compare_agents(runs({"laser": {PONG: [human + 5.0, human + 3.0]}, "acer": {PONG: [human - 5.0, -20.0]}}))
    assert list(found.ranking.mean_ranks) == ["preset=laser", HUMAN, "preset=acer"]
    assert found.ranking.elo[HUMAN] == 0.0
    assert found.ranking.elo["preset=laser"] > 0.0 > found.ranking.elo["preset=acer"]
    assert HUMAN not in found.winning


def test_there_is_no_human_where_a_game_has_no_human_score():
    found = compare_agents(runs({agent: {CATCH: [score], PONG: [score]} for agent, score in (("a", 1.0), ("b", 2.0))}))
    assert list(found.ranking.elo) == ["preset=b", "preset=a"]


def test_games_in_common_and_the_fewest_seeds_count():
    scores = {"laser": {CATCH: [1.0, 0.0, 0.0], MAZE: [1.0]}, "acer": {CATCH: [0.5, 0.5]}}
    found = compare_agents(runs(scores))
    assert (found.games, found.num_seeds) == ([CATCH], 2)
    assert found.winning["preset=laser"] == 0.5


@pytest.mark.parametrize(
    "members",
    [
        [],
        runs({"laser": {CATCH: [1.0, 2.0]}}),
        runs({"laser": {CATCH: [1.0, 2.0]}, "acer": {MAZE: [1.0, 2.0]}}),
        runs({"laser": {CATCH: [1.0]}, "acer": {CATCH: [2.0]}}),
    ],
    ids=["nobody", "one agent", "no common game", "one run each"],
)
def test_where_nothing_can_be_compared(members):
    assert compare_agents(members) is None
