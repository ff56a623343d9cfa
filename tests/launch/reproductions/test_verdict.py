"""Statistics of runs and verdicts of rules."""

import dataclasses

import numpy as np
import pytest

from laser.scoring.scores import find_reference
from laser.scoring.statistics import mean_interval, share_interval
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick
from launch.reproductions.catalogue import load_figure
from launch.reproductions.figure import Arm, Curve, Figure, Rule
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.outcomes import BUCKET, NUM_POINTS, Outcomes, in_force, points_of, read_outcomes, steps_to
from launch.reproductions.plan import make_plan
from launch.reproductions.verdict import judge

METRIC = "charts/mean_return"


def outcomes(values, games=("a",), members="best", normalised=False, lengths=None):
    """Return outcomes of flat curves; values: {arm: [games][seeds] numbers, or arrays [seeds, members, points]}."""
    arms = tuple(Arm(label) for label in values)
    figure = Figure("laser/x", "X", "X.", arms=arms, curves=(Curve(METRIC, "return"),), members=members)
    curves = {}
    for label, rows in values.items():
        for game, row in zip(games, rows, strict=True):
            row = np.asarray(row, float)
            curves[METRIC, label, game] = row if row.ndim == 3 else np.tile(row[:, None, None], (1, 1, NUM_POINTS))
    return Outcomes(
        figure,
        games,
        600,
        curves,
        normalised,
        {(label, game): (lengths or {}).get(label, 600) for label in values for game in games},
    )


def rule(**values):
    return Rule(**{"claim": "c", "arm": "one", "than": "two", **values})


def test_wins_are_pairs_within_games():
    seen = judge(rule(), outcomes({"one": [[5, 6, 7], [1, 1, 9]], "two": [[1, 2, 3], [1, 2, 3]]}, games=("a", "b")))
    assert seen.estimate == pytest.approx((3 + 0.5 + 0 + 1) / 6)
    assert (seen.num, seen.words) == (6, "undecided")
    assert (seen.low, seen.high) == pytest.approx(share_interval(4.5, 6))


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [([9] * 6, [1] * 6, "reproduced"), ([1] * 6, [9] * 6, "not reproduced"), ([9, 1] * 3, [1, 9] * 3, "undecided")],
)
def test_the_whole_interval_decides(one, two, words):
    assert judge(rule(), outcomes({"one": [one], "two": [two]})).words == words


@pytest.mark.parametrize(
    ("one", "words"),
    [
        ([9, 1] * 10, "reproduced"),
        ([9] * 20, "not reproduced"),
        ([1] * 20, "not reproduced"),
        ([9, 9, 1] * 7, "undecided"),
    ],
)
def test_arms_are_alike_if_the_whole_interval_lies_between_two_bounds(one, words):
    runs = outcomes({"one": [one], "two": [[5] * len(one)]})
    assert judge(rule(side="within", lower=0.25, threshold=0.75), runs).words == words


def test_two_runs_that_win_both_decide_nothing():
    assert judge(rule(), outcomes({"one": [[9, 9]], "two": [[1, 1]]})).words == "undecided"


def test_a_side_below():
    seen = judge(rule(side="below", threshold=0.7), outcomes({"one": [[1] * 6], "two": [[2] * 6]}))
    assert seen.words == "reproduced"


def test_differences_ratios_and_values():
    given = outcomes({"one": [[10.0, 12.0, 14.0]], "two": [[1.0, 1.2, 1.4]]})
    seen = judge(rule(compare="difference", threshold=5.0), dataclasses.replace(given, normalised=True))
    mean, half = mean_interval([9.0, 10.8, 12.6])
    assert (seen.estimate, seen.low) == pytest.approx((mean, mean - half))
    seen = judge(rule(compare="ratio", threshold=9.0), given)
    assert (seen.estimate, seen.words) == (pytest.approx(10.0), "reproduced")
    seen = judge(rule(compare="value", than="", threshold=13.0), given)
    assert (seen.estimate, seen.words) == (pytest.approx(12.0), "undecided")


@pytest.mark.parametrize("games", ["a", "ab"])
def test_differences_are_in_units_of_each_games_range(games):
    one, two = [[200.0, 200.0], [2.0, 2.0]], [[100.0, 100.0], [1.0, 1.0]]
    given = outcomes({"one": one[: len(games)], "two": two[: len(games)]}, games=tuple(games))
    assert judge(rule(compare="difference"), given).estimate == pytest.approx(1.0)


def test_arms_that_are_close_beside_the_others_are_alike_whatever_the_unit_of_the_game():
    given = outcomes({"one": [[-304.0, -300.0]], "two": [[-300.0, -304.0]], "three": [[-900.0, -1300.0]]})
    seen = judge(rule(compare="difference", side="within", lower=-0.25, threshold=0.25), given)
    assert seen.words == "reproduced"


def test_runs_of_different_length_are_compared_at_equal_steps():
    rising = np.linspace(0, 1, NUM_POINTS)[None, None]
    given = outcomes({"one": [rising], "two": [rising]}, lengths={"one": 600, "two": 150})
    seen = judge(rule(compare="difference"), given)
    assert seen.estimate == pytest.approx(-1.0), "from 0.25 to 1, in units of that range"


def test_runs_that_are_not_finished_do_not_count():
    given = outcomes({"one": [[5.0, np.nan]], "two": [[1.0, 2.0]]})
    assert judge(rule(), given).num == 1
    empty = judge(rule(), outcomes({"one": [[np.nan]], "two": [[1.0]]}))
    assert (empty.num, empty.words) == (0, "undecided")
    assert "no finished runs" in str(empty)
    assert empty.to_json()["estimate"] is None


def test_the_best_member_is_taken_at_each_point_and_after_the_median_over_games():
    a, b = np.zeros((1, 2, NUM_POINTS)), np.zeros((1, 2, NUM_POINTS))
    a[0, 0], a[0, 1], b[0, 0], b[0, 1] = 4.0, 0.0, 0.0, 4.0
    given = outcomes({"one": [a, b]}, games=("a", "b"))
    assert given.curve(METRIC, "one", "a")[0, 0] == 4.0
    assert given.curve(METRIC, "one", "")[0, 0] == 2.0  # each member has 4 on one game and 0 on the other


def test_the_best_over_games_is_the_median_of_each_games_best():
    early, late = np.zeros((1, 1, NUM_POINTS)), np.zeros((1, 1, NUM_POINTS))
    early[..., 5], late[..., -5] = 1.0, 1.0
    given = outcomes({"one": [early, late]}, games=("a", "b"))
    assert given.statistic(METRIC, "one", "", "best") == [1.0]
    assert given.curve(METRIC, "one", "").max() == 0.5


def test_statistics_of_a_curve():
    tenth = NUM_POINTS // 10
    curve = np.concatenate([np.zeros(NUM_POINTS - tenth - 1), [9.0], np.ones(tenth)])[None, None]
    given = outcomes({"one": [curve]})
    assert given.statistic(METRIC, "one", "a", "final")[0] == 1.0
    assert given.statistic(METRIC, "one", "a", "best")[0] == 9.0
    assert given.statistic(METRIC, "one", "a", "area")[0] == pytest.approx((9.0 + tenth) / NUM_POINTS)


def test_a_value_holds_until_the_next_is_recorded():
    points = points_of(2_000)
    assert points[0] == 10
    series = in_force([(15, 1.0), (300, 2.0)], points)
    assert (series[0], series[28], series[29], series[-1]) == (1.0, 1.0, 2.0, 2.0)
    assert steps_to(series[None], 2.0, 2_000).tolist() == [300.0]
    assert steps_to(series[None], 3.0, 2_000).tolist() == [np.inf]


def test_wilsons_interval_against_its_published_values():
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for wins, num, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert share_interval(wins, num) == pytest.approx((low, high), abs=1e-4)


def test_students_interval_with_few_and_many_values():
    assert mean_interval([1.0])[1] == float("inf")
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.3027 / 3**0.5))
    for num, point in ((11, 2.228), (21, 2.086), (61, 2.000)):
        values = np.arange(num, dtype=float)
        assert mean_interval(values.tolist())[1] == pytest.approx(point * values.std(ddof=1) / num**0.5, rel=2e-3)


def test_speed_is_the_ratio_of_env_steps_until_most_of_the_rise():
    steps = np.arange(NUM_POINTS)
    soon = np.where(steps >= 9, 1.0, 0.0)[None, None]
    late = np.where(steps >= 39, 1.0, 0.0)[None, None]
    never = np.zeros((1, 1, NUM_POINTS))
    given = outcomes({"one": [soon], "two": [late]})
    assert judge(rule(compare="speed", side="below"), given).estimate == pytest.approx(10 / 40)
    given = outcomes({"one": [never], "two": [late]})
    assert judge(rule(compare="speed", side="below"), given).estimate == pytest.approx(NUM_POINTS / 40)
    three = np.concatenate([soon] * 3)
    given = outcomes({"one": [three], "two": [np.concatenate([late] * 3)]})
    assert judge(rule(compare="speed", side="below", threshold=0.6), given).words == "reproduced"


def test_members_near_the_best_are_counted_within_their_game():
    flat = np.ones(NUM_POINTS)
    sweep = np.array([[value * flat for value in (0.0, 4.0, 6.0, 10.0)]])
    late = np.array([[np.where(np.arange(NUM_POINTS) < NUM_POINTS - 6, 0.0, value) for value in (1.0, 2.0, 3.0, 9.0)]])
    seen = judge(rule(than="", compare="near_best"), outcomes({"one": [sweep, late]}, games=("a", "b")))
    assert seen.estimate == pytest.approx((2 + 1) / 8)  # the midpoint of each game's own range
    assert seen.num == 8
    assert (seen.low, seen.high) == pytest.approx(share_interval(3, 8))


def test_the_best_window_is_one_of_all_windows_of_a_curve(tmp_path):
    """As in Reactor's table 3: 200 windows of 1M frames, recorded each at its end; one of them is the best."""
    figure = load_figure("reactor/table-3")
    assert figure.full.values["bucket-frames"] * 200 == 4 * figure.full.steps
    runs = make_plan(figure, ReproduceOptions(games=1, seeds=1))[:1]
    reference = find_reference(runs[0].game)
    generator = np.random.default_rng(0)
    for best in (0, 77, 199):
        windows = generator.uniform(0.0, 10.0, 200)
        windows[best] = 11.0
        (tmp_path / f"{best}").mkdir()
        with MetricsDb(tmp_path / f"{best}" / "metrics.db") as metrics:
            for number, value in enumerate(windows.tolist(), start=1):
                metrics.write(Tick(number, 0.0, number * 250_000, number * 1_000_000, 1), {BUCKET: value})
        figure_of_one = dataclasses.replace(figure, arms=figure.arms[:1])
        outcomes = read_outcomes(figure_of_one, runs, {runs[0].name: tmp_path / f"{best}"}, small=False)
        (found,) = outcomes.statistic(BUCKET, runs[0].arm, runs[0].game, "best")
        assert found == pytest.approx(reference.normalise(11.0))
        (row,) = outcomes.curve(BUCKET, runs[0].arm, runs[0].game)
        assert row == pytest.approx([reference.normalise(value) for value in windows])


def test_a_curve_begins_with_the_last_run_and_the_first_member_of_a_sweep(tmp_path):
    figure = load_figure("reactor/table-3")
    figure = dataclasses.replace(figure, arms=figure.arms[:1])
    runs = [
        dataclasses.replace(run, num_members=2) for run in make_plan(figure, ReproduceOptions(games=1, seeds=2))[:2]
    ]
    firsts = ((3_000, 1_000), (2_000, 5_000))
    for run, members in zip(runs, firsts, strict=True):
        for number, first in enumerate(members):
            place = tmp_path / run.name / "members" / str(number)
            place.mkdir(parents=True)
            with MetricsDb(place / "metrics.db") as metrics:
                metrics.write(Tick(1, 0.0, first, 4 * first, 1), {BUCKET: 1.0})
    outcomes = read_outcomes(figure, runs, {run.name: tmp_path / run.name for run in runs}, small=False)
    assert outcomes.begin(BUCKET, runs[0].arm, runs[0].game) == max(map(min, firsts))
