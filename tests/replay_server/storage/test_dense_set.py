"""The dense set and the free list against Python's own containers."""

import numpy as np
import pytest

from replay_server.storage.dense_set import DenseSet
from replay_server.storage.free_list import FreeList


def test_the_dense_set_equals_a_python_set_under_random_operations():
    rng = np.random.default_rng(0)
    dense, naive = DenseSet(60), set()
    for _ in range(500):
        outside = np.array(sorted(set(range(60)) - naive))
        inside = np.array(sorted(naive))
        if rng.random() < 0.5:
            items = rng.permutation(outside)[: rng.integers(len(outside) + 1)]
            dense.add(items.astype(np.int32))
            naive |= set(items.tolist())
        else:
            items = rng.permutation(inside)[: rng.integers(len(inside) + 1)]
            dense.remove(items.astype(np.int32))
            naive -= set(items.tolist())
        assert sorted(dense.items) == sorted(naive)
        assert len(dense) == len(naive)
        if naive:
            assert set(dense.draw(10, rng).tolist()) <= naive


def test_a_restored_dense_set_draws_the_same():
    dense, other = DenseSet(50), DenseSet(50)
    dense.add(np.arange(40, dtype=np.int32))
    dense.remove(np.array([3, 39, 7], np.int32))
    other.add(np.array([49], np.int32))
    other.load_state_dict(dense.state_dict())
    draws = [each.draw(100, np.random.default_rng(1)).tolist() for each in (dense, other)]
    assert draws[0] == draws[1]


def test_the_free_list_hands_each_index_to_one_owner():
    rng = np.random.default_rng(0)
    free, owned = FreeList(30), []
    for _ in range(300):
        if rng.random() < 0.5:
            taken = free.take(int(rng.integers(len(free) + 1))).tolist()
            assert not set(taken) & set(owned)
            owned += taken
        else:
            rng.shuffle(owned)
            num = int(rng.integers(len(owned) + 1))
            free.give(np.array(owned[:num], np.int32))
            owned = owned[num:]
        assert len(free) + len(owned) == 30
        assert sorted(np.flatnonzero(~free.is_free())) == sorted(owned)


def test_taking_more_than_is_free_is_a_mistake_of_ours():
    with pytest.raises(AssertionError):
        FreeList(3).take(4)
