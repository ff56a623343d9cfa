import numpy as np

from launch.records.curves import bucket_scores, carried, growth_ratio, rate, smooth
from launch.records.series import AXES, Series


def series(ticks, values, seconds=None) -> Series:
    ticks = np.asarray(ticks)
    axes = {axis: np.asarray(ticks if seconds is None else seconds, float) for axis in AXES}
    return Series(ticks, np.asarray(values, float), axes)


def test_smoothing_is_the_line_through_neighbours_that_are_known() -> None:
    values = np.array([1.0, np.nan, 3.0, 8.0, 2.0, 7e6, 4.0])
    slowly = []
    for place in range(len(values)):
        near = [other for other in range(max(0, place - 2), min(len(values), place + 3)) if np.isfinite(values[other])]
        slowly.append(np.polyval(np.polyfit(near, values[near], 1), place))
    np.testing.assert_allclose(smooth(values, 2), slowly, rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(smooth(values, 0), values)
    assert np.isnan(smooth(np.full(3, np.nan), 2)).all()
    np.testing.assert_array_equal(smooth(np.array([np.nan, 5.0, np.nan, np.nan]), 1), [5.0, 5.0, 5.0, np.nan])


def test_smoothing_does_not_lag_even_at_the_ends() -> None:
    ramp = np.arange(50.0)
    np.testing.assert_allclose(smooth(ramp, 5), ramp, atol=1e-9)
    noise = np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(smooth(noise, 2)[2:-2], np.convolve(noise, np.full(5, 0.2), "valid"), atol=1e-12)


def test_rates_are_per_second_and_restarts_are_gaps() -> None:
    counter = series([0, 1, 2, 3], [0.0, 10.0, 4.0, 6.0], seconds=[0.0, 2.0, 4.0, 5.0])
    np.testing.assert_array_equal(rate(counter).values, [5.0, np.nan, 2.0])
    assert len(rate(series([0], [1.0]))) == 0


def test_shares_of_growth_use_the_newest_value_of_each_counter() -> None:
    replayed, fresh = series([0, 10, 20], [0.0, 6.0, 12.0]), series([0, 5, 20], [0.0, 2.0, 4.0])
    share = growth_ratio(replayed, [replayed, fresh])
    np.testing.assert_allclose(share.values, [6 / 8, 6 / 8])


def test_carrying_a_value_on() -> None:
    np.testing.assert_array_equal(carried(series([2, 4], [1.0, 2.0]), np.array([1, 2, 3, 9])), [np.nan, 1, 1, 2])


def test_scores_are_read_by_the_end_of_their_bucket() -> None:
    # The second bucket's score equals the first one's and was not stored again; the one before them has none.
    ends = series([0, 1, 2, 3], [5.0, 10.0, 20.0, 30.0])
    assert bucket_scores(series([1, 3], [3.0, 4.0]), ends) == {10: 3, 20: 3, 30: 4}
