import itertools

import pytest

from laser.scoring.scores import find_reference
from launch.evaluation.agents_compared import HUMAN, compare_agents

CATCH, MAZE = "mini/Catch-v0", "mini/TMaze10-v0"
PONG = "ALE/Pong-v5"


def played(agent, game, score, seed=0):
    """One run: the mean return of an agent on a game."""
    return {"preset": agent, "env": game, "seed": str(seed)}, {game: score}


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
        runs({"laser": {"CartPole-v1": [1.0, 2.0]}}),
        runs({"laser": {CATCH: [1.0, 2.0]}, "acer": {MAZE: [1.0, 2.0]}}),
        runs({"laser": {CATCH: [1.0]}, "acer": {CATCH: [2.0]}}),
    ],
    ids=["nobody", "one agent without references", "no common game", "one run each"],
)
def test_where_nothing_can_be_compared(members):
    assert compare_agents(members) is None


def test_normalised_scores_over_games_with_intervals_over_seeds():
    found = compare_agents(runs(SCORES))
    for agent, games in SCORES.items():
        columns = [
            [
                (score - find_reference(game).random) / (find_reference(game).human - find_reference(game).random)
                for score in scores
            ]
            for game, scores in games.items()
        ]
        everything = sorted(itertools.chain(*columns))
        summary = found.summaries[f"preset={agent}"]
        assert summary["median"][0] == pytest.approx(sum(map(sum, columns)) / 4), (
            "of two games, each the mean of two seeds"
        )
        assert summary["mean"][0] == pytest.approx(sum(everything) / 4)
        assert summary["mean_capped"][0] == pytest.approx(sum(min(1.0, sum(row) / 2) for row in columns) / 2)
        assert summary["interquartile_mean"][0] == pytest.approx(sum(everything[1:3]) / 2)
        low, high = summary["mean"][1]
        assert low <= summary["mean"][0] <= high
    assert found.to_json()["summaries"]["preset=laser"]["mean"]["interval"] is not None


def test_one_agent_over_seeds_and_one_seed_without_intervals():
    several = compare_agents(runs({"laser": {PONG: [14.6, -20.7]}}))
    assert several.ranking is None
    assert several.summaries["preset=laser"]["mean"][0] == pytest.approx(0.5)
    assert any("ALE/Pong-v5: -3.0; the LASER paper: " in line for line in several.lines())
    one = compare_agents(runs({"laser": {PONG: [14.6], CATCH: [1.0]}}))
    assert one.to_json()["summaries"]["preset=laser"]["mean"] == {"score": 1.0, "interval": None}
    assert "(" not in one.lines()[2]
