"""Where streams live: alike many on each usable shard, and no more moves than needed."""

import numpy as np
import pytest

from laser.ports import SampleRequest
from replay_server.client.stream_placement import place_streams, requests_by_home


@pytest.mark.parametrize("seed", range(20))
def test_streams_are_spread_evenly_and_move_as_little_as_may_be(seed):
    rng = np.random.default_rng(seed)
    num_streams, num_shards = int(rng.integers(1, 30)), int(rng.integers(1, 6))
    homes = None
    for _ in range(10):
        usable = rng.random(num_shards) < 0.6
        usable[rng.integers(num_shards)] = True
        settled = place_streams(homes, num_streams, usable)
        counts = np.bincount(settled, minlength=num_shards)
        assert (counts[~usable] == 0).all()
        assert counts[usable].max() - counts[usable].min() <= 1
        if homes is not None:
            before = np.bincount(homes, minlength=num_shards)
            # Naive: of an even split, the most that can stay put with the extra ones where most were.
            each, extra = divmod(num_streams, usable.sum())
            stay = np.minimum(before[usable], each).sum() + min(extra, (before[usable] > each).sum())
            assert (settled == homes).sum() == stay
        homes = settled


def test_requests_name_all_streams_once():
    request = SampleRequest(3, 5, view="streams", stream_set=9, sequence=4)
    asked = requests_by_home(request, np.array([2, 0, 2, 0, 0]), 3, 1.5)
    assert asked[1] is None
    assert [each.streams for each in asked if each] == [(1, 3, 4), (0, 2)]
    assert {(each.stream_set, each.sequence, each.member, each.timeout_s) for each in asked if each} == {(9, 4, 3, 1.5)}
    assert [each.num_items for each in asked if each] == [3, 2]
