import json

import numpy as np
import pytest

from launch.recording.thinned_returns import MOST_KEPT, ThinnedReturns


def filled(values):
    returns = ThinnedReturns()
    for value in values:
        returns.add(float(value))
    return returns


@pytest.mark.parametrize("num", [1, 2, 7, MOST_KEPT - 1])
def test_few_returns_are_all_kept(num):
    values = np.random.default_rng(num).normal(size=num)
    assert filled(values).percentiles(20.0, 80.0) == pytest.approx(np.percentile(values, [20.0, 80.0]).tolist())


@pytest.mark.parametrize("num", [MOST_KEPT, 5_000, 100_003])
def test_of_many_they_are_nearly_those_of_all(num):
    """Within five standard errors of the 512 returns that are kept at least; from all parts of the time, too."""
    values = np.sort(np.random.default_rng(1).random(num))  # a return that only rises: early ones must count
    low, high = filled(values).percentiles(20.0, 80.0)
    error = 5 * np.sqrt(0.2 * 0.8 / (MOST_KEPT / 2))
    assert abs(low - np.percentile(values, 20.0)) < error
    assert abs(high - np.percentile(values, 80.0)) < error
    kept = filled(values).state_dict()["kept"]
    assert MOST_KEPT / 2 <= len(kept) < MOST_KEPT


def test_it_goes_on_where_it_was():
    values = np.random.default_rng(2).random(3_000)
    half = filled(values[:1_500])
    other = ThinnedReturns()
    other.load_state_dict(json.loads(json.dumps(half.state_dict())))
    for value in values[1_500:].tolist():
        other.add(value)
    assert other.state_dict() == filled(values).state_dict()
    assert other.num == 3_000
