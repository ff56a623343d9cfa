"""Versions ascend, one publication is under way at a time, and what is published is a copy."""

from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from laser.flat_parameters import FlatParameters
from laser.futures import done, failed
from laser.ports import PortAwayError, PortTimeoutError
from learner.publishing.parameter_store import ParameterStore
from learner.publishing.publisher import DEADLINE_S, Publisher


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


class Slow:
    """A store that answers when the test does."""

    def __init__(self):
        self.taken = []

    def publish(self, parameters):
        self.taken.append(Future())
        return self.taken[-1]


def test_the_next_publication_waits_for_the_one_before(monkeypatch):
    store = Slow()
    publisher = Publisher(store, FlatParameters(nn.Linear(1, 1)))
    publisher.publish()
    monkeypatch.setattr("learner.publishing.publisher.DEADLINE_S", 0.05)
    with pytest.raises(PortTimeoutError, match="newest version"):
        publisher.publish()
    assert (publisher.version, len(store.taken)) == (0, 1)


def test_a_store_that_is_late_gets_one_moment_for_each_version(monkeypatch):
    waits, now, store = [], [0.0], Slow()

    def wait_for(some, seconds):
        waits.append(seconds)
        return SimpleNamespace(not_done=some)

    monkeypatch.setattr("learner.publishing.publisher.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("learner.publishing.publisher.wait_for", wait_for)
    publisher = Publisher(store, FlatParameters(nn.Linear(1, 1)))
    assert publisher.is_free()
    publisher.publish()
    assert [publisher.is_free() for _ in range(3)] == [False] * 3
    assert len(waits) == 1
    store.taken[0].set_result(None)
    assert publisher.is_free()
    publisher.publish()
    assert not publisher.is_free()
    assert len(waits) == 2
    now[0] = DEADLINE_S + 1.0
    assert publisher.is_free(), "the next publication says what is wrong"


class Later:
    """Parameters whose copies take a moment, as those from a GPU do."""

    is_copied_later = True

    def __init__(self):
        self.value = 0.0
        self.waited_for = []

    def start_copy(self):
        return SimpleNamespace(result=partial(self._arrived, self.value))

    def _arrived(self, value):
        self.waited_for.append(value)
        return np.array([value], np.float32)


def test_a_copy_that_takes_a_moment_is_handed_over_by_the_next_publication():
    parameters, store = Later(), ParameterStore()
    publisher = Publisher(store, parameters)
    for version in range(3):
        parameters.value = 10.0 * version
        publisher.publish()
        assert publisher.version == version
        assert parameters.waited_for == [10.0 * earlier for earlier in range(version)], "nobody waits for the newest"
        newest = store.newest(-1).result()
        assert (newest and newest.version) == (version - 1 if version else None)
    assert publisher.is_copying
    parameters.value = -1.0
    publisher.hand_over()
    publisher.hand_over()
    assert not publisher.is_copying
    newest = store.newest(-1).result()
    assert (newest.version, newest.vector.tolist()) == (2, [20.0])
    publisher.publish()
    publisher.settle()
    assert store.newest(2).result().vector.tolist() == [-1.0]


@pytest.mark.gpu
def test_what_a_gpu_publishes_is_of_the_moment_whatever_it_computes_meanwhile():
    layer = nn.Linear(1000, 1000).cuda()
    parameters, store = FlatParameters(layer), ParameterStore()
    publisher = Publisher(store, parameters)
    for version in range(20):
        parameters.vector.fill_(float(version))
        publisher.publish()
        parameters.vector.fill_(-1.0)
        if version:
            published = store.newest(-1).result()
            assert (published.version, published.vector.min(), published.vector.max()) == (version - 1,) * 3
    publisher.settle()
    assert store.newest(-1).result().vector[-1] == 19.0
    assert not store.newest(-1).result().vector.flags.writeable


class Away:
    """A store that is away when the test says so."""

    def __init__(self):
        self.is_away, self.taken = True, []

    def publish(self, parameters):
        if self.is_away:
            return failed(PortAwayError("being started anew"))
        self.taken.append((parameters.version, float(parameters.vector[0])))
        return done(None)


def test_versions_for_a_store_that_is_away_are_dropped_and_the_newest_is_published_again():
    parameters, store = FlatParameters(nn.Linear(1, 1)), Away()
    publisher = Publisher(store, parameters)
    for value in (1.0, 2.0):
        parameters.vector.fill_(value)
        publisher.publish()
    publisher.settle()
    store.is_away = False
    publisher.publish_again()
    publisher.settle()
    publisher.publish()
    assert store.taken == [(1, 2.0), (2, 2.0)]
