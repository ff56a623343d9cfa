import numpy as np

from laser.ports import KEY_DTYPE, ORIGIN_DTYPE, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.age_quantiles import AgeQuantiles
from learner.mixing import Mix


def sample(versions, member=0, ages=None, streams=False):
    num = len(versions)
    headers, origins = np.zeros(num, HEADER_DTYPE), np.zeros((num, 3), ORIGIN_DTYPE)
    headers["parameter_version"], headers["member"] = versions, member
    origins["parameter_version"], origins["member"] = np.array(versions)[:, None], member
    return Sample(
        Unrolls(headers, {}),
        np.zeros(num, KEY_DTYPE),
        np.ones(num),
        num,
        origins=origins if streams else None,
        ages=None if ages is None else np.array(ages),
    )


def test_quantiles_are_values_that_occurred_and_are_taken_once():
    ages = AgeQuantiles(member=0)
    ages.add(Mix(sample([8, 9]), sample(range(50), ages=range(50))), version=10)
    ages.add(Mix(sample([9, 9]), sample(range(50), ages=range(50, 101))), version=110)
    taken = ages.take()
    assert [taken[f"replay_age/{key}"] for key in ("p10", "p50", "p90", "max")] == [10.0, 50.0, 90.0, 100.0]
    assert [taken[f"policy_lag/online/{key}"] for key in ("p10", "p90", "max")] == [1.0, 101.0, 101.0]
    assert taken["policy_lag/own_replay/max"] == 110.0
    assert ages.take() == {}


def test_versions_of_other_members_say_nothing_and_streams_have_many_makers():
    ages = AgeQuantiles(member=0)
    ages.add(Mix(None, sample([1, 2], member=3, ages=[5, 6])), version=10)
    assert set(ages.take()) == {f"replay_age/{key}" for key in ("p10", "p50", "p90", "max")}
    ages.add(Mix(None, sample([1, 4], streams=True)), version=10)
    assert ages.take()["policy_lag/own_replay/p10"] == 6.0


def test_between_reports_the_newest_batches_count():
    ages = AgeQuantiles(member=0)
    for age in range(1000):
        ages.add(Mix(None, sample([0], ages=[age])), version=0)
    assert ages.take()["replay_age/p10"] > 900
