"""The set of drawn steps: bounded, uniform, counting what was drawn twice twice."""

from collections import Counter

import numpy as np

from laser.ports import KEY_DTYPE
from laser.prioritization.index_set import IndexSet


def keys(pages):
    made = np.zeros(len(pages), KEY_DTYPE)
    made["page"] = pages
    made["generation"] = 7
    return made


def test_every_key_is_equally_likely_whenever_it_came():
    """Step 3 was drawn three times, the other nine once; a naive list would hold all twelve."""
    counts, num_sets = Counter(), 4000
    for seed in range(num_sets):
        drawn, rng = IndexSet(4), np.random.default_rng(seed)
        for pages in ([0, 1, 2], [3, 3], [4, 5, 6, 7], [3], [8, 9]):
            drawn.add(keys(pages), rng)
        assert len(drawn) == 4
        counts.update(drawn.keys["page"].tolist())
    expected = {page: num_sets * 4 * (3 if page == 3 else 1) / 12 for page in range(10)}
    statistic = sum((counts[page] - number) ** 2 / number for page, number in expected.items())
    assert statistic < 9 + 3.1 * np.sqrt(18) + 8
    # The test can fail: as if what was drawn twice counted once.
    wrong = dict.fromkeys(range(10), num_sets * 4 / 10)
    assert sum((counts[page] - number) ** 2 / number for page, number in wrong.items()) > 100


def test_without_replacement_and_never_more_than_were_added():
    drawn, rng = IndexSet(8), np.random.default_rng(0)
    drawn.add(keys([1, 2, 3]), rng)
    assert sorted(drawn.keys["page"].tolist()) == [1, 2, 3]
    drawn.add(keys(range(4, 104)), rng)
    assert len(set(drawn.keys["page"].tolist())) == 8
    assert (drawn.keys["generation"] == 7).all()
    drawn.clear()
    assert len(drawn) == 0


def test_what_was_saved_goes_on_alike():
    one, rng = IndexSet(4), np.random.default_rng(0)
    one.add(keys(range(20)), rng)
    other, again = IndexSet(4), np.random.default_rng()
    other.load_state_dict(one.state_dict())
    again.bit_generator.state = rng.bit_generator.state
    one.add(keys(range(20, 40)), rng)
    other.add(keys(range(20, 40)), again)
    np.testing.assert_array_equal(one.keys, other.keys)
