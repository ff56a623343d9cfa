"""The time from a learner's death to the next update."""

import pytest

from launch.bench.chaos_run.accounts import summarise_recoveries
from launch.bench.chaos_run.victim import Look


def looks(*numbers):
    """Return one look a second: the deaths noticed, and the updates."""
    return [Look(float(at), num_deaths, num_updates) for at, (num_deaths, num_updates) in enumerate(numbers)]


def test_the_next_update_is_the_first_one_after_the_death_was_noticed():
    # The last updates of the dead learner are recorded late; then the count falls to the checkpoint's.
    seen = looks((0, 50), (0, 60), (0, 65), (1, 40), (1, 40), (1, 40), (1, 45), (1, 50))
    assert summarise_recoveries([(1.5, 0)], seen) == {
        "learner_recoveries": 1,
        "learner_recovery_s_median": 4.5,
        "learner_recovery_s_worst": 4.5,
    }


def test_a_death_during_a_recovery_prolongs_it():
    seen = looks((0, 50), (1, 40), (1, 40), (2, 40), (2, 40), (2, 41))
    found = summarise_recoveries([(0.5, 0), (2.5, 1)], seen)
    assert found["learner_recovery_s_worst"] == 4.5
    assert found["learner_recovery_s_median"] == pytest.approx((4.5 + 2.5) / 2)


def test_a_death_at_the_end_of_the_run_is_left_out():
    assert summarise_recoveries([(1.5, 0)], looks((0, 1), (0, 2), (1, 2), (1, 2))) == {"learner_recoveries": 0}
    assert summarise_recoveries([], looks((0, 1), (0, 2))) == {"learner_recoveries": 0}
