import numpy as np
import pytest

from laser.ports import KEY_DTYPE, ORIGIN_DTYPE, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience.mixing import Mix
from learner.metrics.age_quantiles import AgeQuantiles


def sample(versions, member=0, ages=None, streams=False):
    num = len(versions)
    headers, origins = np.zeros(num, HEADER_DTYPE), np.zeros((num, 3), ORIGIN_DTYPE)
    headers["parameter_version"], headers["member"] = versions, member
    origins["parameter_version"], origins["member"] = np.array(versions)[:, None], np.reshape(member, (-1, 1))
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


def test_streams_have_many_makers():
    ages = AgeQuantiles(member=0)
    ages.add(Mix(None, sample([1, 4], streams=True)), version=10)
    assert ages.take()["policy_lag/own_replay/p10"] == 6.0


@pytest.mark.parametrize("streams", [False, True])
def test_what_others_made_lags_behind_the_newest_of_theirs(streams):
    ages = AgeQuantiles(member=0)
    both = sample([7, 9, 100, 80], member=[0, 0, 3, 4], ages=[1, 2, 3, 4], streams=streams)
    ages.add(Mix(None, both), version=10)
    taken = ages.take()
    assert [taken[f"policy_lag/own_replay/{key}"] for key in ("p10", "max")] == [1.0, 3.0]
    assert taken["policy_lag/foreign_replay/max"] == 0.0  # the newest of either
    ages.add(Mix(None, sample([60, 75, 101], member=[3, 4, 3], ages=[1, 2, 3], streams=streams)), version=11)
    taken = ages.take()
    assert "policy_lag/own_replay/max" not in taken
    assert taken["policy_lag/foreign_replay/max"] == 41.0
    assert taken["policy_lag/foreign_replay/p50"] == 5.0


def test_between_reports_the_newest_batches_count():
    ages = AgeQuantiles(member=0)
    for age in range(1000):
        ages.add(Mix(None, sample([0], ages=[age])), version=0)
    assert ages.take()["replay_age/p10"] > 900
