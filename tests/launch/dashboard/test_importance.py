"""Importance of settings, on returns whose causes are known."""

import itertools
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from launch.dashboard.importance import Importance, importances, too_few
from launch.dashboard.outcomes import Outcome, ordered, outcomes_of, varied
from launch.dashboard.settings_figures import importance_words
from launch.evaluation.settings_compared import compare_settings


def grid(value, noise=0.0):
    generator = np.random.default_rng(0)
    return [
        Outcome(f"{rate} {core}", {"rate": rate, "core": core, "same": 1.0}, value(rate, core) + noise * draw, 3)
        for (rate, core), draw in zip(
            itertools.product((1e-4, 1e-3, 1e-2, 1e-1), ("gru", "lstm", "none")), generator.normal(size=12), strict=True
        )
    ]


@pytest.mark.parametrize("cause", ["rate", "core"])
def test_settings_that_cause_the_return_matter_and_others_do_not(cause):
    causes = {"rate": lambda rate, core: np.log10(rate), "core": lambda rate, core: float(len(core))}
    table, explained = importances([*grid(causes[cause], 0.05), *grid(causes[cause], 0.05)])
    assert next(one.key for one in table) == cause
    assert table[0].low > 0.1
    assert table[1].low < 0.0 or table[1].mean < 0.05 * table[0].mean
    assert explained > 0.5
    assert {one.key for one in table} == {"rate", "core"}  # one that does not vary is left out


def test_two_pages_that_ask_at_the_same_time_get_the_same_without_a_warning(monkeypatch):
    monkeypatch.setattr("launch.dashboard.importance._NUM_TREES", 4)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads take turns often
    outcomes = [*grid(lambda rate, core: rate, 0.05)] * 2
    with warnings.catch_warnings(record=True) as said, ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: importances(outcomes), range(8)))
    sys.setswitchinterval(interval_s)
    assert said == []
    assert all(table == tables[0] for table in tables)


def test_noise_makes_no_settings_matter():
    table, explained = importances(grid(lambda rate, core: 0.0, 1.0))
    assert explained < 0.2
    assert importance_words(table, explained).startswith("no setting can be told to matter")


def test_equal_returns_of_settings_have_no_importance():
    assert importances(grid(lambda rate, core: 3.0)) == ([], 0.0)


def test_fewer_than_twelve_are_too_few():
    known = grid(lambda rate, core: rate)
    assert too_few(known) == ""
    assert too_few([*known[1:], Outcome("x", {}, float("nan"), 0)]) == (
        "11 settings have a return: fewer than 12 are too few to tell which of them matter"
    )
    assert too_few(known[:1]).startswith("1 setting has")


def test_the_words_name_what_matters_and_what_cannot_be_told():
    table = [Importance("algorithm.rate", 0.9, 0.5, 1.3), Importance("core", 0.1, -0.1, 0.3)]
    assert importance_words(table, 0.8) == (
        "algorithm.rate matters; no effect can be told of core; "
        "a forest explains 80 % of the variance of settings that it has not seen"
    )


def test_seeds_of_a_setting_are_one_outcome_and_members_of_a_population_one_each():
    rows = [
        {"number": n, "name": f"member {n}", "return": float(n), "settings": {"rate": n // 2, "seed": n}}
        for n in range(4)
    ]
    settings = compare_settings((n, {"rate": n // 2}, float(n)) for n in range(4))
    found = outcomes_of(settings, rows)
    assert [(one.value, one.num_seeds, dict(one.settings)) for one in found] == [
        (2.5, 2, {"rate": 1}),
        (0.5, 2, {"rate": 0}),
    ]
    assert [one.value for one in outcomes_of([], rows)] == [0.0, 1.0, 2.0, 3.0]
    assert varied(found) == ["rate"]
    assert ordered(["b", 10.0, 2.0, None, "a", 2.0]) == [2.0, 10.0, "a", "b"]
