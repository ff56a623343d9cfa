"""Saved shards on another number of shards: every unroll, in the order of its stream, with its columns."""

from __future__ import annotations

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import ColumnSpec, ColumnWrites, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.saving.spreading import spread
from replay_server.serving.shard import Shard

ACTORS = 5


def make_shards(num, frames=True, capacity_steps=4000):
    config = ReplayConfig(capacity_steps=capacity_steps, num_shards=num)
    columns = (ColumnSpec("priority", 1.0),)
    members = [MemberSettings(0, rate=RateLimit(min_steps=40), columns=columns, online_capacity=500)]
    return [Shard(make_spec(frames=frames), config, members, shard=index, seed=5) for index in range(num)]


def filled(num, frames=True):
    shards = make_shards(num, frames)
    streams = [Stream(shards[0].spec, np.random.default_rng(a), actor=a) for a in range(ACTORS)]
    for _ in range(12):
        for stream in streams:
            wait(shards[stream.actor % num].insert(join([stream.next_unroll()])), 5, "insert")
    for shard in shards:
        sample = wait(shard.sample(SampleRequest(0, 400)), 5, "sample")
        values = np.repeat(number_of(sample)[:, None], 4, 1).astype(np.float32)
        wait(shard.write(ColumnWrites(0, sample.keys, {"priority": values})), 5, "write")
    return shards


def number_of(sample):
    return 100 * sample.unrolls.headers["actor"] + sample.unrolls.headers["sequence"]


def states_of(shards):
    found = [shard.partial_state([], 0) for shard in shards]
    return [{**state, "contents": contents} for state, contents in found]


def held(shards):
    """Return everything that the shards hold, by unroll."""
    found = {}
    for shard in shards:
        if not shard.stats().result().num_unrolls:
            continue
        sample = wait(shard.sample(SampleRequest(0, 3000)), 5, "sample")
        pictures = next(iter(sample.unrolls.frames.values()), None)
        for row, number in enumerate(number_of(sample).tolist()):
            picture = b"" if pictures is None else pictures[row].tobytes()
            fields = tuple(value[row].tobytes() for value in sample.unrolls.fields.values())
            found[number] = (fields, picture, sample.columns["priority"][row].tolist())
    return found


@pytest.mark.parametrize("frames", [True, False])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (2, 1), (1, 7)])
def test_another_number_of_shards_holds_the_same(before, after, frames):
    old, new = filled(before, frames), make_shards(after, frames)
    for shard, refill in zip(new, spread(states_of(old), after), strict=True):
        if refill is not None:
            shard.refill(refill)
        shard._store.check_valid()
    expected, found = held(old), held(new)
    assert len(expected) == ACTORS * 12
    assert found == expected
    assert all(values == [float(number)] * 4 for number, (*_, values) in found.items())
    assert sum(shard.stats().result().members[0].online_queued for shard in new) == 0, "none of it is fresh"


def test_episodes_go_on_over_unrolls():
    old, new = filled(2), make_shards(1)
    (refill,) = spread(states_of(old), 1)
    new[0].refill(refill)
    episodes = [sum(shard.stats().result().num_episodes for shard in shards) for shards in (old, new)]
    assert episodes[0] == episodes[1]


def test_what_finds_no_room_is_the_oldest():
    old, new = filled(2), make_shards(1, capacity_steps=100)
    (refill,) = spread(states_of(old), 1)
    new[0].refill(refill)
    new[0]._store.check_valid()
    numbers = np.array(sorted(held(new)))
    assert 0 < len(numbers) < ACTORS * 12
    assert (numbers % 100).min() >= 5


def test_unrolls_of_another_layout_are_refused():
    (refill,) = spread(states_of(filled(1, frames=False)), 1)
    with pytest.raises(ValueError, match="made for images"):
        make_shards(1)[0].refill(refill)
