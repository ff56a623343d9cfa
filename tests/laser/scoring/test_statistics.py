import statistics

import numpy as np
import pytest

from laser.scoring.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean,
    mean_capped,
    mean_interval,
    median_over_tasks,
    t_quantile,
)

SCORES = np.random.default_rng(0).gamma(1.0, 2.0, (5, 7))


def literal_interquartile_mean(rows):
    values = sorted(value for row in rows for value in row)
    cut = int(0.25 * len(values))
    return statistics.fmean(values[cut : len(values) - cut])


def literal_median_over_tasks(rows):
    return statistics.median(statistics.fmean(row[task] for row in rows) for task in range(len(rows[0])))


def literal_mean(rows):
    return statistics.fmean(value for row in rows for value in row)


def literal_mean_capped(rows):
    return statistics.fmean(min(1.0, statistics.fmean(column)) for column in zip(*rows, strict=True))


PAIRS = [
    (mean_capped, literal_mean_capped),
    (mean, literal_mean),
    (interquartile_mean, literal_interquartile_mean),
    (median_over_tasks, literal_median_over_tasks),
]


@pytest.mark.parametrize(("fast", "literal"), PAIRS)
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (3, 1), (1, 9), (10, 57)])
def test_statistics_equal_literal_loops(fast, literal, shape):
    scores = np.random.default_rng(1).normal(size=shape)
    assert fast(scores) == pytest.approx(literal(scores.tolist()), abs=1e-12)


def test_the_interquartile_mean_drops_a_quarter_at_each_end():
    assert interquartile_mean(np.array([[-1e9, 1.0, 2.0, 1e9]])) == 1.5


@pytest.mark.parametrize(("fast", "literal"), PAIRS)
def test_the_bootstrap_equals_literal_loops(fast, literal):
    num_resamples = 200
    interval = bootstrap_interval(SCORES, fast, np.random.default_rng(3), 0.9, num_resamples)
    who = np.random.default_rng(3).integers(0, 5, (num_resamples, 5, 7))
    values = []
    for sample in range(num_resamples):
        rows = [[SCORES[who[sample, run, task], task] for task in range(7)] for run in range(5)]
        values.append(literal(rows))
    values.sort()
    for found, share in zip(interval, (0.05, 0.95), strict=True):
        place = share * (num_resamples - 1)
        below, above = values[int(place)], values[int(place) + 1]
        assert found == pytest.approx(below + (above - below) * (place - int(place)), abs=1e-12)


def test_a_task_never_borrows_runs_from_another():
    apart = np.array([[0.0, 100.0], [1.0, 101.0], [2.0, 102.0]])
    low, high = bootstrap_interval(apart, mean, np.random.default_rng(0), 1.0)
    assert 50 <= low <= high <= 52


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(5)
    hits = 0
    for _ in range(300):
        low, high = bootstrap_interval(generator.normal(size=(20, 3)), mean, generator, 0.95, 300)
        hits += low <= 0.0 <= high
    # Percentile intervals of few runs are a little too narrow; 5 standard errors around 0.93.
    assert hits / 300 > 0.93 - 5 * (0.93 * 0.07 / 300) ** 0.5


def test_the_interval_shrinks_with_more_runs_and_a_lower_level():
    few, many = np.random.default_rng(0).normal(size=(5, 1)), np.random.default_rng(0).normal(size=(500, 1))

    def width(scores, level):
        low, high = bootstrap_interval(scores, mean, np.random.default_rng(1), level)
        return high - low

    assert width(many, 0.95) < 0.3 * width(few, 0.95)
    assert width(few, 0.5) < width(few, 0.95)


@pytest.mark.parametrize("freedom", [1, 2, 5, 10, 11, 30, 400])
def test_95_percent_of_students_t_lie_between_its_quantile_and_the_negative(freedom):
    # The density, integrated after x = sqrt(freedom) tan(angle), which maps its long tails to a finite interval.
    angles = np.linspace(-np.pi / 2, np.pi / 2, 400_002)[1:-1]
    weights = np.cos(angles) ** (freedom - 1)
    inside = np.abs(np.sqrt(freedom) * np.tan(angles)) <= t_quantile(freedom)
    assert weights[inside].sum() / weights.sum() == pytest.approx(0.95, abs=3e-5)


def test_the_interval_of_a_mean_covers_it_as_often_as_it_says():
    draws = np.random.default_rng(3).normal(size=(4000, 4))
    covered = sum(abs(middle) <= half for middle, half in (mean_interval(row.tolist()) for row in draws))
    assert covered / 4000 == pytest.approx(0.95, abs=5 * np.sqrt(0.95 * 0.05 / 4000))
