"""Centres and bands of curves over seeds."""

import numpy as np
import pytest

from launch.records.seed_bands import band_over_seeds

X = np.array([0.0, 10.0])
SEEDS = [(X, np.array([value, value + 10.0])) for value in (0.0, 1.0, 2.0, 9.0)]
T_OF_THREE_DEGREES = 3.1824


@pytest.mark.parametrize(
    ("band", "centre", "low", "high"),
    [
        ("range", 3.0, 0.0, 9.0),
        ("deviation", 3.0, 3.0 - np.sqrt(50 / 3), 3.0 + np.sqrt(50 / 3)),
        ("iqm", 1.5, 0.75, 3.75),
        ("interval", 3.0, 3 - T_OF_THREE_DEGREES * np.sqrt(50 / 12), 3 + T_OF_THREE_DEGREES * np.sqrt(50 / 12)),
    ],
)
def test_a_band_shows_what_was_chosen(band, centre, low, high) -> None:
    found = band_over_seeds(SEEDS, band, num=3)
    np.testing.assert_array_equal(found.x, [0, 5, 10])
    np.testing.assert_allclose(found.centre, centre + np.array([0, 5, 10]))
    np.testing.assert_allclose(found.low, low + np.array([0, 5, 10]), atol=1e-3)
    np.testing.assert_allclose(found.high, high + np.array([0, 5, 10]), atol=1e-3)
    assert not found.rests


def test_two_seeds_have_no_interval_and_one_no_band_at_all() -> None:
    assert band_over_seeds(SEEDS[:2], "interval").low is None
    assert band_over_seeds(SEEDS[:2], "range").low is not None
    assert band_over_seeds(SEEDS[:1], "range").low is None
    assert band_over_seeds([], "range") is None
    assert band_over_seeds([(X, np.full(2, np.nan))], "range") is None


def test_a_band_ends_where_a_seed_ends_and_the_others_go_on_by_themselves() -> None:
    long = (np.array([0.0, 5.0, 8.0, 20.0]), np.array([1.0, 1.0, 2.0, 3.0]))
    found = band_over_seeds([SEEDS[0], long], "deviation", num=3)
    assert found.x[-1] == 10.0
    late = (np.array([6.0, 7.0]), np.array([1.0, 1.0]))
    found = band_over_seeds([late, long], "deviation", num=3)
    np.testing.assert_array_equal(found.x, [6.0, 6.5, 7.0])
    np.testing.assert_array_equal([piece[0] for piece in found.rests], [[0.0, 5.0], [8.0, 20.0]])


def test_seeds_without_a_common_moment_are_drawn_each_by_itself() -> None:
    found = band_over_seeds([SEEDS[0], (X + 50.0, X)], "deviation")
    assert len(found.x) == 0
    assert [piece[0][0] for piece in found.rests] == [0.0, 50.0]
