"""The time from a learner's death to the next update, and what the actors do meanwhile."""

import pytest

from launch.bench.chaos_run.accounts import summarise_recoveries
from launch.bench.chaos_run.victim import Look


def looks(*numbers):
    """Return one look a second: the deaths noticed, the updates, and the env steps, of which each second has some."""
    return [Look(float(at), deaths, updates, *(steps or [at])) for at, (deaths, updates, *steps) in enumerate(numbers)]


def test_the_next_update_is_the_first_one_after_the_death_was_noticed():
    # The last updates of the dead learner are recorded late; then the count falls to the checkpoint's.
    seen = looks((0, 50), (0, 60), (0, 65), (1, 40), (1, 40), (1, 40), (1, 45), (1, 50))
    assert summarise_recoveries([(1.5, 0)], seen) == {
        "learner_recoveries": 1,
        "learner_recovery_s_median": 4.5,
        "learner_recovery_s_worst": 4.5,
        "actors_stop_s_median": 1.0,
        "actors_stop_s_worst": 1.0,
    }


def test_a_death_during_a_recovery_prolongs_it():
    seen = looks((0, 50), (1, 40), (1, 40), (2, 40), (2, 40), (2, 41))
    found = summarise_recoveries([(0.5, 0), (2.5, 1)], seen)
    assert found["learner_recovery_s_worst"] == 4.5
    assert found["learner_recovery_s_median"] == pytest.approx((4.5 + 2.5) / 2)


def test_actors_stop_while_no_env_step_is_made_between_the_death_and_the_next_update():
    steps = (0, 10, 20, 20, 20, 20, 30, 30, 40, 40, 40, 40, 40)
    seen = looks(*[(int(at > 1), 50 + (at > 8), num) for at, num in enumerate(steps)])
    found = summarise_recoveries([(1.5, 0)], seen)
    assert found["learner_recovery_s_worst"] == 7.5, "the update was seen at 9"
    assert found["actors_stop_s_worst"] == 4.0, "from the step at 2 to the next one at 6"
    still = looks(*[(int(at > 1), 50 + (at > 8), 10) for at in range(10)])
    assert summarise_recoveries([(1.5, 0)], still)["actors_stop_s_worst"] == 7.5, "no env step at all"


def test_a_death_at_the_end_of_the_run_is_left_out():
    assert summarise_recoveries([(1.5, 0)], looks((0, 1), (0, 2), (1, 2), (1, 2))) == {"learner_recoveries": 0}
    assert summarise_recoveries([], looks((0, 1), (0, 2))) == {"learner_recoveries": 0}
