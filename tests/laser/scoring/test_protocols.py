import math
import statistics

import numpy as np
import pytest

from laser.scoring.protocols import BucketScores, CurveProtocol, point_wise_best, protocol_for

MEDIAN = CurveProtocol("normalised_median", "median")
TASKS = ("a", "b", "c")
ENDS = [100.0 * number for number in range(1, 11)]


def random_runs(num_agents=3, missing=0.0):
    generator = np.random.default_rng(2)
    return [
        BucketScores(agent, {end: float(generator.normal()) for end in ENDS if generator.random() >= missing})
        for agent in range(num_agents)
        for _ in TASKS
    ]


def literal_curve(runs, over_tasks, downsampling, order="paper"):
    """The protocol in loops; `order` tells wrong ones apart."""
    curves = {}
    for run in runs:
        row = []
        for end in ENDS:
            before = [run.scores[earlier] for earlier in ENDS if earlier <= end and earlier in run.scores]
            row.append(before[-1] if before else math.nan)
        curves.setdefault(run.agent, []).append(row)
    if order == "best before tasks":
        return [max(row[place] for rows in curves.values() for row in rows) for place in range(len(ENDS))]
    scores = []
    for rows in curves.values():
        columns = list(zip(*rows, strict=True))
        scores.append([math.nan if any(map(math.isnan, column)) else over_tasks(column) for column in columns])
    groups = [range(start, start + downsampling) for start in range(0, len(ENDS), downsampling)]
    if order == "best before downsampling":
        return [statistics.fmean(max(row[place] for row in scores) for place in group) for group in groups]
    points = [[statistics.fmean(row[place] for place in group) for group in groups] for row in scores]
    return [
        max([value for value in column if not math.isnan(value)], default=math.nan)
        for column in zip(*points, strict=True)
    ]


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("downsampling", [1, 2, 5])
@pytest.mark.parametrize(("name", "over_tasks"), [("median", statistics.median), ("mean", statistics.fmean)])
def test_the_best_of_a_sweep_equals_literal_loops(name, over_tasks, downsampling, missing):
    runs = random_runs(missing=missing)
    ends, best = point_wise_best(runs, CurveProtocol("score", name, downsampling))
    np.testing.assert_allclose(best, literal_curve(runs, over_tasks, downsampling), atol=1e-12)
    np.testing.assert_array_equal(ends, ENDS[downsampling - 1 :: downsampling])


@pytest.mark.parametrize("order", ["best before tasks", "best before downsampling"])
def test_the_data_can_tell_a_best_taken_too_early(order):
    runs = random_runs()
    downsampling = 1 if order == "best before tasks" else 2
    _, best = point_wise_best(runs, CurveProtocol("score", "median", downsampling))
    assert not np.allclose(best, literal_curve(runs, statistics.median, downsampling, order))


def test_an_agent_that_has_not_begun_does_not_hide_the_others():
    runs = [BucketScores("early", {10: 0.5, 20: 0.5}), BucketScores("late", {20: 0.8}), BucketScores("never", {})]
    ends, best = point_wise_best(runs, MEDIAN)
    np.testing.assert_array_equal(ends, [10, 20])
    np.testing.assert_array_equal(best, [0.5, 0.8])
    _, alone = point_wise_best([BucketScores("late", {20: 0.8}), BucketScores("late", {10: 1.0})], MEDIAN)
    assert math.isnan(alone[0]), "one of its tasks is unknown"
    assert alone[1] == 0.9


def test_points_that_are_not_complete_are_not_drawn():
    run = BucketScores("one", {10: 1.0, 20: 3.0, 30: 100.0})
    ends, best = point_wise_best([run], CurveProtocol("score", "mean", 2))
    assert (ends.tolist(), best.tolist()) == ([20], [2.0])
    assert len(point_wise_best([run], CurveProtocol("score", "mean", 4))[0]) == 0
    assert len(point_wise_best([], MEDIAN)[0]) == 0


def test_plain_returns_of_different_games_make_no_curve():
    runs = [BucketScores("one", {10: 1.0}), BucketScores("one", {10: 300.0}), BucketScores("two", {10: 5.0})]
    assert len(point_wise_best(runs, CurveProtocol("mean_return"))[0]) == 0
    assert point_wise_best(runs[1:], CurveProtocol("mean_return"))[1].tolist() == [300.0]


def test_each_suite_has_the_protocol_of_its_paper():
    levels = ["dmlab/rooms_watermaze", "dmlab/rooms_keys_doors_puzzle"]
    assert protocol_for(levels) == CurveProtocol("normalised_median", "median", 10)
    assert protocol_for(levels, "mean_capped") == CurveProtocol("normalised_mean_capped", "mean", 10)
    assert protocol_for(["ALE/Pong-v5"], "mean_capped") == CurveProtocol("normalised_mean_capped", "mean")
    assert protocol_for(["ALE/Pong-v5", "ALE/Breakout-v5"]) == MEDIAN
    assert protocol_for(["mini/Catch-v0"]) == MEDIAN
    assert (
        protocol_for(["CartPole-v1"]) == protocol_for(["CartPole-v1", "mini/Catch-v0"]) == CurveProtocol("mean_return")
    )
