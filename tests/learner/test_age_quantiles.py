import numpy as np

from learner.age_quantiles import AgeQuantiles


def test_quantiles_are_values_that_occurred_and_are_taken_once():
    ages = AgeQuantiles()
    ages.add("replay_age", np.arange(50).reshape(5, 10))
    ages.add("replay_age", np.arange(50, 101))
    ages.add("policy_lag/online", np.array([], np.int64))  # nothing is known of it
    taken = ages.take()
    assert taken == {"replay_age/p10": 10.0, "replay_age/p50": 50.0, "replay_age/p90": 90.0, "replay_age/max": 100.0}
    assert ages.take() == {}


def test_between_reports_the_newest_batches_count():
    ages = AgeQuantiles()
    for age in range(1000):
        ages.add("lag", np.array([age]))
    assert ages.take()["lag/p10"] > 700
