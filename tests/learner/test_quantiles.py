"""Quantiles, against the definition on sorted lists."""

import numpy as np
import pytest

from learner.quantiles import WITH_LARGEST, named_quantiles, quantiles

LEVELS = (0.0, 0.1, 0.37, 0.5, 0.9, 1.0)


def smallest_with(share, values, weights):
    """The smallest value at or below which at least a share of the weight lies; the weights are whole numbers."""
    for value in sorted(values):
        if weights[values <= value].sum() >= share * weights.sum() - 1e-9:
            return value
    raise AssertionError


@pytest.mark.parametrize("num", [1, 2, 7, 10, 30, 1000])
def test_they_are_the_smallest_values_that_reach_a_share(num):
    rng = np.random.default_rng(num)
    for values in (rng.integers(0, 9, num), rng.normal(size=num)):
        before, times = values.copy(), rng.integers(1, 6, num)
        expected = [smallest_with(level, values, np.ones(num)) for level in LEVELS]
        np.testing.assert_array_equal(quantiles(values, LEVELS), expected)
        np.testing.assert_array_equal(quantiles(values, LEVELS, np.ones(num)), expected)
        weighted = [smallest_with(level, values, times) for level in LEVELS]
        np.testing.assert_array_equal(quantiles(values, LEVELS, times.astype(float)), weighted)
        np.testing.assert_array_equal(quantiles(np.repeat(values, times), LEVELS), weighted)
        np.testing.assert_array_equal(values, before)


def test_numpy_agrees_on_its_own_kind_of_quantile():
    values = np.random.default_rng(0).normal(size=12345)
    np.testing.assert_array_equal(quantiles(values, LEVELS), np.quantile(values, LEVELS, method="inverted_cdf"))


def test_metrics_are_named_by_their_level():
    found = named_quantiles("lag", np.arange(10), WITH_LARGEST)
    assert found == {"lag/p10": 0.0, "lag/p50": 4.0, "lag/p90": 8.0, "lag/max": 9.0}
