import numpy as np

from laser.ports import KEY_DTYPE, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience.mixing import Mix
from learner.metrics.consumption import Consumption


def sample(valid):
    valid = np.array(valid)
    num = len(valid)
    return Sample(Unrolls(np.zeros(num, HEADER_DTYPE), {"valid": valid}), np.zeros(num, KEY_DTYPE), np.ones(num), num)


def test_unrolls_and_their_valid_steps_are_counted_once():
    counts = Consumption()
    for _ in range(500):  # more than wait to be counted
        counts.add(Mix(sample([[True, False]]), sample([[True, True], [False, False], [True, False]])))
    counts.add(Mix(None, sample([[True, True]])))
    assert counts.take() == {
        "unrolls_learned/online": 500.0,
        "steps_learned/online": 500.0,
        "unrolls_learned/replayed": 1501.0,
        "steps_learned/replayed": 1502.0,
    }
    assert counts.take() == {}


def test_a_source_that_gave_nothing_is_there_with_0():
    counts = Consumption()
    counts.add(Mix(sample([[True, False]]), None))
    assert counts.take() == {
        "unrolls_learned/online": 1.0,
        "steps_learned/online": 1.0,
        "unrolls_learned/replayed": 0.0,
        "steps_learned/replayed": 0.0,
    }
