"""Versions ascend, one publication is under way at a time, and what is published is a copy."""

from concurrent.futures import Future

import pytest
import torch
from torch import nn

from laser.flat_parameters import FlatParameters
from laser.ports import PortTimeoutError
from learner.parameter_store import ParameterStore
from learner.publisher import Publisher


def test_versions_ascend_and_later_changes_are_not_seen():
    parameters, store = FlatParameters(nn.Linear(1, 1)), ParameterStore()
    publisher = Publisher(store, parameters)
    assert publisher.version == -1
    parameters.vector.fill_(1.0)
    publisher.publish()
    parameters.vector.fill_(2.0)
    assert store.newest(-1).result().version == publisher.version == 0
    assert store.newest(-1).result().vector.tolist() == [1.0, 1.0]
    assert publisher.newest().vector.tolist() == [2.0, 2.0]
    publisher.publish()
    assert store.newest(0).result().version == 1
    assert torch.equal(torch.from_numpy(store.newest(0).result().vector.copy()), parameters.vector)


def test_the_next_publication_waits_for_the_one_before(monkeypatch):
    class Slow:
        def __init__(self):
            self.taken = []

        def publish(self, parameters):
            self.taken.append(Future())
            return self.taken[-1]

    store = Slow()
    publisher = Publisher(store, FlatParameters(nn.Linear(1, 1)))
    publisher.publish()
    monkeypatch.setattr("learner.publisher.DEADLINE_S", 0.05)
    with pytest.raises(PortTimeoutError, match="newest version"):
        publisher.publish()
    assert (publisher.version, len(store.taken)) == (0, 1)
