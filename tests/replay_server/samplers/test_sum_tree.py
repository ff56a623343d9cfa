"""The sum tree against a naive list of weights."""

import numpy as np
import pytest

from replay_server.samplers import sum_tree
from replay_server.samplers.sum_tree import SumTree


@pytest.fixture(params=[4096, 16], ids=["shallow", "deep"])
def top(request, monkeypatch):
    monkeypatch.setattr(sum_tree, "_TOP", request.param)


@pytest.mark.usefixtures("top")
@pytest.mark.parametrize("capacity", [1, 15, 16, 17, 300, 5000])
def test_it_keeps_what_a_list_keeps(capacity):
    rng = np.random.default_rng(capacity)
    tree, naive = SumTree(capacity), np.zeros(capacity)
    for _ in range(60):
        items = rng.integers(capacity, size=int(rng.integers(1, 40)))
        weights = rng.random(len(items)) * 10.0 ** rng.integers(-8, 8, len(items)) * (rng.random(len(items)) < 0.7)
        tree.write(items, weights)
        for item, weight in zip(items.tolist(), weights.tolist(), strict=True):
            naive[item] = weight
        tree.check_valid()
        np.testing.assert_array_equal(tree.leaves, naive)
        assert tree.total == pytest.approx(naive.sum(), rel=1e-12)
        assert tree.largest == naive.max()
        if naive.any():
            masses = rng.random(50) * naive.sum()
            cumulated = np.cumsum(naive)
            expected = np.searchsorted(cumulated, masses, side="right")
            # Points within rounding of a border may fall on either side of it.
            distance = np.abs(masses[:, None] - cumulated).min(axis=1)
            found = tree.find(masses)
            clear = distance > 1e-9 * naive.sum()
            np.testing.assert_array_equal(found[clear], expected[clear])
            assert (naive[found] > 0).all()


def test_the_paper_s_example():
    tree = SumTree(4)
    tree.write(np.arange(4), np.array([3.0, 1.0, 2.0, 4.0]))
    assert tree.find(np.array([0.5, 3.2, 5.9, 9.9])).tolist() == [0, 1, 2, 3]


def test_sums_do_not_drift():
    rng = np.random.default_rng(0)
    tree = SumTree(1000)
    for _ in range(100_000 // 50):
        tree.write(rng.integers(1000, size=50), rng.random(50) * 10.0 ** rng.integers(-12, 12))
    tree.check_valid()
    assert tree.total == pytest.approx(tree.leaves.sum(), rel=1e-13)
    tree.write(np.arange(1000), 0.0)
    assert tree.total == 0.0, "a sum kept by differences keeps what rounding left in it"


@pytest.mark.usefixtures("top")
def test_a_weight_of_zero_is_never_drawn():
    """Tiny weights among large ones, and points at the very end of the sum."""
    tree = SumTree(700)
    weights = np.zeros(700)
    weights[::7] = 0.3
    weights[3::70] = 1e-15
    tree.write(np.arange(700), weights)
    rng = np.random.default_rng(0)
    ends = np.concatenate([np.cumsum(weights), np.nextafter(np.cumsum(weights), 0), [tree.total, tree.total * 2]])
    for found in (tree.find(ends), *(tree.draw(256, rng) for _ in range(50))):
        assert (weights[found] > 0).all()


@pytest.mark.usefixtures("top")
@pytest.mark.parametrize("seed", range(5))
def test_the_end_of_the_sum_is_the_last_item_that_weighs_anything(seed):
    weights = np.random.default_rng(seed).random(700)
    weights[650:] = 0.0
    tree = SumTree(700)
    tree.write(np.arange(700), weights)
    ends = np.array([1.0, 1.0 - 2**-53, 2.0]) * tree.total
    assert set(tree.find(ends).tolist()) == {649}


@pytest.mark.usefixtures("top")
def test_draws_follow_the_weights():
    rng = np.random.default_rng(3)
    weights = rng.random(900) * (rng.random(900) < 0.8)
    tree = SumTree(900)
    tree.write(np.arange(900), weights)
    # A stratified draw varies less than an independent one: also when all strata are looked at together.
    num = 90_000
    counts = np.bincount(np.concatenate([tree.draw(100, rng) for _ in range(num // 100)]), minlength=900)
    expected = num * weights / weights.sum()
    positive = expected > 0
    statistic = ((counts - expected)[positive] ** 2 / expected[positive]).sum()
    freedom = positive.sum() - 1
    limit = freedom + 3.1 * np.sqrt(2 * freedom) + 8  # alpha = 0.001, seed fixed
    assert statistic < limit
    wrong = num * np.roll(weights, 1)[positive] / weights.sum() + 1e-9
    assert ((counts[positive] - wrong) ** 2 / wrong).sum() > limit


@pytest.mark.usefixtures("top")
def test_a_point_where_one_item_ends_is_the_next_ones():
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, 5000).astype(float)  # whole numbers, so that every sum is exact
    tree = SumTree(5000)
    tree.write(np.arange(5000), weights)
    points = np.arange(weights.sum())
    np.testing.assert_array_equal(tree.find(points), np.searchsorted(np.cumsum(weights), points, side="right"))
