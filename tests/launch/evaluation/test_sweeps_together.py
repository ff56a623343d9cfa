"""Sweeps over games: the best member of the median over games, against the sums written slowly, and over repeats."""

import itertools
import statistics

import numpy as np
import pytest

from laser.config import ConfigError
from laser.scoring.scores import find_reference
from launch.evaluation.sweep_evaluation import BestCurve, MemberRecord
from launch.evaluation.sweeps_together import SweepOfGames, mean_curve, put_together
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick

GAMES = ("mini/Catch-v0", "mini/SparseCatch3-v0", "mini/KeyDoor4-v0")
RATES = ("0.001", "0.01", "0.1")
ENDS = (100, 200, 300)


def write(path, scores):
    path.parent.mkdir(parents=True)
    with MetricsDb(path) as metrics:
        for end, score in zip(ENDS, scores, strict=True):
            values = {"buckets/normalised_median": float(score), "buckets/ends_at": float(end)}
            metrics.write(Tick(end / 100, 0.0, end + 7, 4 * end, 0), values)
    return path


def make_sweep(place, game, curves, returns, rates=RATES):
    """Return a sweep of one game, with a curve and a mean return for each step size."""
    records = [
        MemberRecord(
            write(place / "members" / str(number) / "metrics.db", curve), game, {"algorithm.learning-rate": rate}
        )
        for number, (rate, curve) in enumerate(zip(rates, curves, strict=True))
    ]
    return SweepOfGames(
        place, records, {number: {game: value} for number, value in enumerate(returns) if value is not None}
    )


@pytest.fixture
def measured(tmp_path):
    """Two repeats on three games: the sweeps, their curves and their returns [repeat, game, member, ...]."""
    generator = np.random.default_rng(5)
    curves, returns = generator.random((2, 3, 3, len(ENDS))), generator.uniform(-1.0, 1.0, (2, 3, 3))
    sweeps = [
        make_sweep(tmp_path / f"{repeat}-{place}", game, curves[repeat, place], returns[repeat, place])
        for repeat in range(2)
        for place, game in enumerate(GAMES)
    ]
    return sweeps, curves, returns


def test_the_best_member_is_of_the_median_over_games(measured):
    sweeps, curves, returns = measured
    found = put_together(sweeps)
    assert found.games == sorted(GAMES)
    best = []
    for repeat in range(2):
        medians = {}
        for member, rate in enumerate(RATES):
            scores = []
            for place, game in enumerate(GAMES):
                reference = find_reference(game)
                value = returns[repeat, place, member]
                scores.append((value - reference.random) / (reference.human - reference.random))
            medians[f"algorithm.learning-rate={rate}"] = sorted(scores)[1]
        name = max(medians, key=medians.get)
        best.append(medians[name])
        assert found.repeats[repeat].best == name
        assert found.repeats[repeat].num_agents == 3
        assert found.repeats[repeat].is_normalised
        assert found.repeats[repeat].score == pytest.approx(medians[name])
        slow = [
            max(sorted(curves[repeat, place, member, point] for place in range(3))[1] for member in range(3))
            for point in range(len(ENDS))
        ]
        assert found.repeats[repeat].curve.ends == list(ENDS)
        assert found.repeats[repeat].curve.scores == pytest.approx(slow)
    # The data can tell the order: the best on each game, then the median, is another number.
    wrong = np.median(curves.max(2), axis=1)
    assert not np.allclose(wrong[0], found.repeats[0].curve.scores)
    as_json = found.to_json()
    assert as_json["mean_score"] == pytest.approx(statistics.fmean(best))
    assert as_json["score_deviation"] == pytest.approx(statistics.stdev(best))
    assert "2 repeats with one sweep of each" in "\n".join(found.lines())


def test_repeats_have_a_mean_and_a_spread(measured):
    sweeps, _, _ = measured
    found = put_together(sweeps)
    one, other = (np.array(repeat.curve.scores) for repeat in found.repeats)
    assert found.curve.means == pytest.approx(((one + other) / 2).tolist())
    assert found.curve.deviations == pytest.approx((abs(one - other) / np.sqrt(2)).tolist())
    assert f"+- {found.curve.deviations[-1]:,.3f} over 2 repeats" in found.curve.words()
    single = put_together(sweeps[:3])
    assert single.curve.means == pytest.approx(one.tolist())
    assert single.to_json()["score_deviation"] is None
    assert "+-" not in single.curve.words()


def test_the_order_of_the_sweeps_of_a_repeat_does_not_matter(measured):
    sweeps, _, _ = measured
    found = put_together(sweeps)
    for order in itertools.islice(itertools.permutations(range(3)), 1, 6):
        shuffled = put_together([sweeps[place] for place in order] + sweeps[3:])
        assert [repeat.score for repeat in shuffled.repeats] == [repeat.score for repeat in found.repeats]
        assert shuffled.curve.means == pytest.approx(found.curve.means)


def test_a_repeat_that_lacks_a_game_is_left_out_and_named(measured):
    sweeps, _, _ = measured
    found = put_together(sweeps[:5])
    assert len(found.repeats) == 1
    assert found.left_out == [sweeps[3].run_dir, sweeps[4].run_dir]
    assert f"left out: {sweeps[3].run_dir}" in "\n".join(found.lines())
    assert found.repeats[0].score == put_together(sweeps[:3]).repeats[0].score


def test_only_settings_that_all_games_have_are_compared(tmp_path):
    """The third member of the second game is good, and has no counterpart."""
    first = make_sweep(tmp_path / "a", GAMES[0], [[0.1] * 3, [0.3] * 3], [-0.5, 0.0], RATES[:2])
    second = make_sweep(tmp_path / "b", GAMES[1], [[0.1] * 3, [0.3] * 3, [0.9] * 3], [0.0, 0.5, 1.0])
    (repeat,) = put_together([first, second]).repeats
    assert repeat.num_agents == 2
    assert repeat.best == "algorithm.learning-rate=0.01"
    assert repeat.curve.scores == pytest.approx([0.3] * 3)
    other = make_sweep(tmp_path / "c", GAMES[2], [[0.9] * 3], [1.0], RATES[2:])
    none = put_together([first, other])
    assert (none.repeats[0].num_agents, none.repeats[0].best, none.curve) == (0, None, None)
    assert "no settings in common" in "\n".join(none.lines())


def test_a_member_that_could_not_play_everywhere_is_not_the_best(tmp_path):
    first = make_sweep(tmp_path / "a", GAMES[0], [[0.1] * 3] * 2, [1.0, -1.0], RATES[:2])
    second = make_sweep(tmp_path / "b", GAMES[1], [[0.1] * 3] * 2, [None, 0.0], RATES[:2])
    (repeat,) = put_together([first, second]).repeats
    assert repeat.best == "algorithm.learning-rate=0.01"


def test_returns_of_several_games_without_references_are_not_compared(tmp_path):
    games = ("CartPole-v1", "Acrobot-v1")
    sweeps = [make_sweep(tmp_path / game, game, [[1.0] * 3], [5.0], RATES[:1]) for game in games]
    together = put_together(sweeps)
    assert together.repeats[0].best is None
    assert "cannot be compared" in "\n".join(together.lines())
    (alone,) = put_together(sweeps[:1]).repeats
    assert (alone.score, alone.is_normalised) == (5.0, False)


def test_sweeps_that_share_some_games_only_are_refused(tmp_path):
    first = make_sweep(tmp_path / "a", GAMES[0], [[0.1] * 3], [0.0], RATES[:1])
    both = SweepOfGames(
        tmp_path, [*first.records, MemberRecord(tmp_path / "members/1/metrics.db", GAMES[1], {})], first.returns
    )
    with pytest.raises(ConfigError, match="1 of their games in common, but not all"):
        put_together([first, both])


def test_a_point_counts_once_all_repeats_have_it():
    one = BestCurve("median", [1.0, 2.0, 3.0], [float("nan"), 2.0, 4.0])
    other = BestCurve("median", [1.0, 2.0, 4.0], [1.0, 6.0, 8.0])
    found = mean_curve([one, other])
    assert (found.ends, found.means) == ([2.0], [4.0])
    assert found.deviations == pytest.approx([np.sqrt(8.0)])
    assert mean_curve([one, BestCurve("median", [9.0], [1.0])]) is None
