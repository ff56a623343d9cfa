"""Counts of what is learned from, by the member that made it."""

import numpy as np
import pytest
import torch

from laser.ports import KEY_DTYPE, ORIGIN_DTYPE, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience.mixing import Mix
from learner.metrics.makers import Makers

UNROLL = 4


def sample(members, versions, num_valid, streams=False):
    """Return items with `num_valid` of their four steps valid."""
    num = len(members)
    headers, origins = np.zeros(num, HEADER_DTYPE), np.zeros((num, UNROLL), ORIGIN_DTYPE)
    headers["member"], headers["parameter_version"] = members, versions
    origins["member"], origins["parameter_version"] = np.reshape(members, (-1, 1)), np.reshape(versions, (-1, 1))
    if streams:
        headers["member"] = headers["parameter_version"] = 99  # must not be read
    valid = np.arange(UNROLL) < np.reshape(num_valid, (-1, 1))
    unrolls = Unrolls(headers, {"valid": valid})
    return Sample(unrolls, np.zeros(num, KEY_DTYPE), np.ones(num), num, origins=origins if streams else None)


def numbers(accepted, abs_log_rho):
    return {
        "accepted": torch.tensor([accepted]),
        "abs_log_rho": torch.tensor([abs_log_rho]),
        "priority": torch.ones(1, len(accepted)),
    }


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("fresh_streams", [False, True])
def test_counts_are_sums_over_the_steps_of_each_maker(fresh_streams, streams):
    makers = Makers(member=1)
    mix = Mix(sample([1], [10], [4], fresh_streams), sample([2, 1, 2], [5, 7, 3], [2, 4, 3], streams))
    makers.add(mix, numbers([4.0, 1.0, 0.0, 3.0], [0.5, 2.0, 4.0, 8.0]))
    assert makers.take() == {
        "learned_from/1/steps": 8.0,
        "learned_from/1/accepted": 4.0,
        "learned_from/1/abs_log_rho": 4.5,
        "learned_from/1/lag": 3.0 * 4,  # version 7 beside 10, four steps
        "learned_from/2/steps": 5.0,
        "learned_from/2/accepted": 4.0,
        "learned_from/2/abs_log_rho": 10.0,
        "learned_from/2/lag": 2.0 * 3,
    }
    assert makers.take() == {}
    makers.add(Mix(None, sample([2], [4], [4], streams)), numbers([4.0], [1.0]))
    assert makers.take()["learned_from/2/lag"] == 4.0  # behind version 5, which was drawn before


def test_an_agent_alone_counts_nothing():
    makers = Makers(member=0)
    makers.add(Mix(sample([0], [1], [4]), None), numbers([4.0], [0.0]))
    assert makers.take() == {}


def test_the_kl_of_a_trust_region_is_summed_where_the_loss_knows_it():
    makers = Makers(member=0)
    makers.add(Mix(None, sample([3, 0, 3], [1, 1, 1], [2, 4, 4])), {"kl": torch.tensor([[0.5, 0.25, 1.5]])})
    taken = makers.take()
    assert taken["learned_from/3/kl"] == 2.0
    assert taken["learned_from/0/kl"] == 0.25


def test_a_loss_that_says_nothing_of_its_items_leaves_the_steps():
    makers = Makers(member=0)
    makers.add(Mix(None, sample([3], [1], [2])), {})
    assert makers.take() == {"learned_from/3/steps": 2.0, "learned_from/3/lag": 0.0}


def test_many_batches_are_all_counted():
    makers = Makers(member=0)
    for _ in range(1000):
        makers.add(Mix(None, sample([3], [1], [4])), numbers([3.0], [1.0]))
    assert len(makers._waiting) < 100
    assert makers.take()["learned_from/3/accepted"] == 3000.0
