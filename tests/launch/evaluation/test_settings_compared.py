"""Settings ranked by the mean return over their seeds."""

import math

import pytest

from launch.evaluation.settings_compared import best_setting, compare_settings

MEMBERS = [
    (0, {"lr": 0.1, "seed": 1}, 500.0),
    (1, {"lr": 0.1, "seed": 2}, 10.0),
    (2, {"lr": 0.2, "seed": 1}, 300.0),
    (3, {"lr": 0.2, "seed": 2}, 290.0),
    (4, {"lr": 0.3}, math.nan),
]


def test_the_best_setting_is_that_of_the_highest_mean_and_not_that_of_the_best_member() -> None:
    settings = compare_settings(MEMBERS)
    assert [(one.name, one.members, one.mean) for one in settings[:2]] == [
        ("lr=0.2", (2, 3), 295.0),
        ("lr=0.1", (0, 1), 255.0),
    ]
    assert settings[2].name == "lr=0.3"
    assert math.isnan(settings[2].mean)
    best = best_setting(settings)
    assert best is not None
    assert best.to_json() == {
        "settings": {"lr": "0.2"},
        "members": [2, 3],
        "mean_return": 295.0,
        "interval": None,
        "seeds": 2,
    }


def test_an_interval_needs_three_seeds_and_is_wider_than_their_range_for_three() -> None:
    assert compare_settings(MEMBERS)[0].interval is None
    (one,) = compare_settings((number, {}, value) for number, value in enumerate([1.0, 2.0, 3.0]))
    assert one.name == "all"
    assert one.interval == pytest.approx((2 - 4.3027 / math.sqrt(3), 2 + 4.3027 / math.sqrt(3)))
    assert one.words() == "2.0 (-0.5 to 4.5), 3 seeds"


def test_returns_of_different_games_have_no_best_setting() -> None:
    assert best_setting(compare_settings([(0, {"env": "a"}, 1.0), (1, {"env": "b"}, 2.0)])) is None
    assert best_setting(compare_settings([(0, {}, math.nan)])) is None
