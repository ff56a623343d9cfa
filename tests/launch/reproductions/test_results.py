"""What a reproduction ends with: panels, table and standings, from curves that are known."""

import dataclasses

import numpy as np
import pytest

from launch.reproductions import results
from launch.reproductions.figure import Arm, Curve, Figure, Number, Pair
from launch.reproductions.outcomes import BUCKET, HIGH, LOW, NUM_POINTS, Outcomes
from launch.reproductions.published import published_scores

METRIC = "charts/mean_return"
GAMES = ("ALE/Pong-v5", "ALE/Breakout-v5")


def outcomes(ends, games=GAMES, normalised=False, members=1, settings=None, **values):
    """Return outcomes whose curves rise linearly to a final value; ends: {arm: [games][seeds]}."""
    figure = Figure(
        "paper/figure-1", "T", "S.", arms=tuple(map(Arm, ends)), curves=(Curve(METRIC, "return"),), **values
    )
    rise = np.arange(1, NUM_POINTS + 1) / NUM_POINTS
    curves = {
        (METRIC, arm, game): np.array(row)[:, None, None] * rise * np.ones((1, members, 1))
        for arm, rows in ends.items()
        for game, row in zip(games, rows, strict=True)
    }
    lengths = {(arm, game): 6_000 for arm in ends for game in games}
    return Outcomes(figure, games, 6_000, curves, normalised, lengths, settings or {})


@pytest.fixture
def drawn(monkeypatch):
    """The panels that are drawn, in place of a picture."""
    seen = []
    monkeypatch.setattr(results, "draw", lambda panels, title, *_, **__: seen.extend(panels) or title.encode())
    return seen


def lines_of(panel):
    return {line.label: np.array(line.points) for line in panel.lines}


def test_a_panel_per_game_has_the_median_of_each_arm_and_its_band(drawn):
    results.picture_of(outcomes({"one": [[1.0, 2.0, 6.0], [0.0, 0.0, 0.0]], "two": [[3.0] * 3] * 2}), "small")
    assert [panel.title for panel in drawn] == list(GAMES)
    points = lines_of(drawn[0])
    assert points["one"][-1].tolist() == [6.0, 2.0]  # thousands of env steps, and the median
    assert points["two"][-1].tolist() == [6.0, 3.0]
    assert drawn[0].lines[0].band[-1] == pytest.approx([1.5, 4.0])  # quartiles


@pytest.mark.parametrize(("band", "bounds"), [("range", (1.0, 3.0, 6.0)), ("deviation", (0.8396, 3.0, 5.1602))])
def test_around_the_mean_is_a_deviation_or_all_runs(drawn, band, bounds):
    results.picture_of(outcomes({"one": [[1.0, 2.0, 6.0]]}, games=GAMES[:1], band=band), "")
    line = drawn[0].lines[0]
    assert (line.band[-1][0], line.points[-1][1], line.band[-1][1]) == pytest.approx(bounds, abs=1e-3)


def test_a_curve_begins_where_every_run_has_a_value(drawn):
    """Before, its first value would look like a plateau."""
    runs = outcomes({"one": [[1.0, 2.0], [4.0, 4.0]], "two": [[3.0, 3.0], [1.0, 1.0]]})
    begins = {(METRIC, "one", GAMES[0]): 1_500.0, (METRIC, "one", GAMES[1]): 3_000.0}
    results.picture_of(dataclasses.replace(runs, begins=begins), "")
    assert [[points[0][0] for points in lines_of(panel).values()] for panel in drawn] == [[1.5, 0.03], [3.0, 0.03]]
    assert len(drawn[0].lines[0].band) == len(drawn[0].lines[0].points)
    drawn.clear()
    results.picture_of(dataclasses.replace(runs, begins=begins, normalised=True), "")
    assert [points[0][0] for points in lines_of(drawn[2]).values()] == [3.0, 0.03]


def test_the_papers_numbers_are_lines_at_the_papers_size_only(drawn):
    runs = outcomes({"one": [[1.0], [2.0]]}, numbers=(Number("other", 7.0, GAMES[1]),))
    results.picture_of(runs, "small")
    assert not any("the paper" in label for panel in drawn for label in lines_of(panel))
    drawn.clear()
    results.picture_of(runs, "")
    assert lines_of(drawn[1])["the paper: other"].tolist() == [[0.0, 7.0], [6.0, 7.0]]
    assert list(lines_of(drawn[0])) == ["one"]


def test_a_number_of_a_moment_is_a_point_there_and_beside_ours(drawn):
    early, late = (Number("one", value, GAMES[0], note=f"at {at}", at=at) for value, at in ((0.7, 3_000), (1.1, 6_000)))
    runs = outcomes({"one": [[1.0], [2.0]]}, numbers=(early, late, Number("other", 7.0, GAMES[0], note="cited")))
    results.picture_of(runs, "")
    lines = lines_of(drawn[0])
    assert lines["the paper: one"].tolist() == [[3.0, 0.7], [6.0, 1.1]]
    assert lines["the paper: other, cited"].tolist() == [[0.0, 7.0], [6.0, 7.0]]
    assert [line.is_points for line in drawn[0].lines] == [False, False, True]
    assert results.table_of(runs, {})[0][-1] == "0.7 (at 3000); here 0.5, 1.1 (at 6000); here 1"


def test_arms_that_are_only_compared_are_not_drawn(drawn):
    runs = outcomes({"one": [[1.0]], "two": [[2.0]]}, games=GAMES[:1], shown_arms=("two",))
    results.picture_of(runs, "")
    assert list(lines_of(drawn[0])) == ["two"]
    assert {row[1] for row in results.table_of(runs, {})} == {"one", "two"}


def test_one_arm_has_nobody_to_win_against(drawn):
    results.picture_of(outcomes({"one": [[1.0], [2.0]]}, wins=True), "")
    assert [panel.title for panel in drawn] == list(GAMES)


def test_of_many_games_only_the_median_over_them_is_drawn(drawn):
    games = [f"ALE/Game{number}-v5" for number in range(17)]
    results.picture_of(outcomes({"one": [[float(number)] for number in range(17)]}, games, normalised=True), "")
    (panel,) = drawn
    assert panel.title == "median over games"
    assert lines_of(panel)["one"][-1][1] == 8.0


def test_pairs_are_probabilities_to_have_more(drawn):
    finals = {"one": [[1.0, 4.0], [5.0, 5.0]], "two": [[2.0, 3.0], [1.0, 1.0]], "three": [[0.0] * 2] * 2}
    results.picture_of(outcomes(finals, pairs=(Pair("one", "two"), Pair("two", "three"))), "")
    *_, panel = drawn
    last = {label: points[-1][1] for label, points in lines_of(panel).items()}
    assert last == {"one over two": (2 / 4 + 1.0) / 2, "two over three": 1.0}
    assert panel.goal == 0.5


def test_the_last_tenth_of_each_member_is_a_point_over_its_setting(drawn):
    settings = {("algorithm.learning-rate", "one", "ALE/Pong-v5"): np.array([[1e-3, 1e-2], [2e-3, np.nan]])}
    finals = {"one": [[1.0, 2.0]]}
    runs = outcomes(finals, GAMES[:1], members=2, settings=settings, finals=("algorithm.learning-rate",))
    results.picture_of(runs, "")
    *_, panel = drawn
    (line,) = panel.lines
    tenth = np.mean(np.arange(181, 201) / 200)
    assert np.allclose(line.points, [(1e-3, tenth), (1e-2, tenth), (2e-3, 2 * tenth)])
    assert (line.is_points, panel.is_log_x, panel.x_title) == (True, True, "learning rate")


def test_the_table_has_our_numbers_beside_the_papers():
    numbers = (Number("one", 3.5, GAMES[0], note="at the end"), Number("cited", 9.0, GAMES[1]))
    rows = results.table_of(outcomes({"one": [[1.0, 3.0], [4.0, 4.0]]}, numbers=numbers), {})
    assert [row[0] for row in rows] == [*GAMES, GAMES[1]]
    assert rows[0][5].startswith("2 +- ")  # the best: the mean of 1 and 3
    assert rows[0][7] == "3.5 (at the end)"
    assert rows[1][7] == "-"
    assert rows[2] == (GAMES[1], "cited", METRIC, "-", "-", "-", "-", "9")


def test_standings_are_beside_random_play_and_people():
    """By hand: on both games "strong" is above a human, who is above "weak", who is above random play."""
    runs = outcomes({"weak": [[0.5], [0.5]], "strong": [[3.0], [3.0]]}, normalised=True, wins=True)
    standings = {name: (rank, elo) for name, rank, elo in results.standings_of(runs)}
    assert [float(standings[name][0]) for name in ("strong", "human", "weak", "random")] == [1.0, 2.0, 3.0, 4.0]
    elo = [float(standings[name][1]) for name in ("strong", "human", "weak", "random")]
    assert elo == sorted(elo, reverse=True)
    assert elo[1] == 0.0


def test_published_agents_are_ranked_on_their_own_games_only():
    """On Breakout and Pong every variant of DQN is above people, and the prioritised dueling one has 13 on Breakout."""
    runs = outcomes({"Reactor": [[0.5], [0.5]]}, games=("ALE/Breakout-v5", "ALE/Pong-v5"), normalised=True, wins=True)
    runs = dataclasses.replace(runs, figure=dataclasses.replace(runs.figure, name="reactor/table-2"))
    ranks = {name: float(rank) for name, rank, _ in results.standings_of(runs)}
    assert len(ranks) == 8
    assert (ranks["human"], ranks["Reactor"], ranks["random"]) == (6.0, 7.0, 8.0)
    assert published_scores("reactor/table-2", ["ALE/Breakout-v5"])["DQN"] == [pytest.approx(352.9 / 26.3)]
    assert published_scores("reactor/table-2", ["mini/Catch-v0"]) == {}
    assert published_scores("reactor/table-3", ["ALE/Breakout-v5"]) == {}
    assert not results.standings_of(dataclasses.replace(runs, normalised=False)), "one agent has nobody beside it"


def test_standings_without_reference_scores_are_among_the_arms():
    standings = results.standings_of(outcomes({"one": [[1.0], [1.0]], "two": [[3.0], [3.0]]}, wins=True))
    assert [row[:2] for row in standings] == [("one", "2.00"), ("two", "1.00")]
    assert standings[0][2] == "+0"


def test_the_contours_of_episodes_are_means_over_runs_of_their_percentiles(drawn):
    runs = outcomes({"one": [[2.0, 4.0, 9.0]]}, games=GAMES[:1], band="episodes")
    figure = dataclasses.replace(runs.figure, curves=(Curve(BUCKET, "return"), Curve("kl_from_behaviour", "nats")))
    rows = runs.curves[METRIC, "one", GAMES[0]]
    unfinished = np.full_like(rows[:1], np.nan)
    curves = {
        (BUCKET, "one", GAMES[0]): np.concatenate([rows, unfinished]),
        (LOW, "one", GAMES[0]): np.concatenate([rows - np.array([1.0, 2.0, 3.0])[:, None, None], unfinished]),
        (HIGH, "one", GAMES[0]): np.concatenate([rows + np.array([0.0, 0.0, 3.0])[:, None, None], unfinished]),
        ("kl_from_behaviour", "one", GAMES[0]): rows,
    }
    results.picture_of(dataclasses.replace(runs, figure=figure, curves=curves), "small")
    returns, kl = (panel.lines[0] for panel in drawn)
    assert returns.points[-1] == pytest.approx((6.0, 5.0))  # the mean
    assert returns.band[-1] == pytest.approx((3.0, 6.0))
    assert kl.points[-1] == pytest.approx((6.0, 4.0))  # the median
    assert kl.band[-1] == pytest.approx(np.percentile([2.0, 4.0, 9.0], [20, 80]).tolist())
