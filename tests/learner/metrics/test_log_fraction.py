"""The part of the replayed steps that came from a log, counted by who made them."""

import numpy as np

from laser.ports import KEY_DTYPE, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience.mixing import Mix
from learner.metrics.log_fraction import LogFraction


def sample(actors, num_valid):
    """Return unrolls of three steps, so many of them valid, made by these actors."""
    headers = np.zeros(len(actors), HEADER_DTYPE)
    headers["actor"] = actors
    valid = np.arange(3) < np.array(num_valid)[:, None]
    return Sample(Unrolls(headers, {"valid": valid}), np.zeros(len(actors), KEY_DTYPE), np.ones(len(actors)), 9)


def test_valid_steps_of_actors_below_zero_are_of_the_log():
    fraction = LogFraction()
    assert fraction.take(0.5) == {}
    fraction.add(Mix(sample([0, 1], [3, 3]), None))  # fresh: never of a log
    assert fraction.take(0.5) == {}
    fraction.add(Mix(sample([0], [3]), sample([-1, 0, -2], [1, 3, 2])))
    fraction.add(Mix(None, sample([4], [2])))
    assert fraction.take(0.25) == {"replay/log_share": 3 / 8, "replay/log_share_set": 0.25}
    fraction.add(Mix(None, sample([-1], [2])))
    assert fraction.take(None) == {"replay/log_share": 1.0}
