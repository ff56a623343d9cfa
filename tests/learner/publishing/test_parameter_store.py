"""The store keeps the newest version, and lets a restored learner publish its own again."""

import numpy as np

from laser.ports import Parameters
from learner.publishing.parameter_store import ParameterStore


def test_newer_versions_replace_older_ones_and_not_the_reverse():
    store = ParameterStore()
    for version in (0, 2, 1):
        store.publish(Parameters(version, np.full(1, float(version), np.float32)))
    assert store.newest(-1).result().version == 2
    assert store.newest(2).result() is None


def test_a_restored_version_0_replaces_the_initial_one():
    store = ParameterStore()
    store.publish(Parameters(0, np.zeros(1, np.float32)))
    store.publish(Parameters(0, np.ones(1, np.float32)))
    assert store.newest(-1).result().vector[0] == 1.0


def test_the_store_says_its_newest_version():
    store = ParameterStore()
    assert store.newest_version().result() == -1
    store.publish(Parameters(4, np.zeros(1, np.float32)))
    assert store.newest_version().result() == 4
