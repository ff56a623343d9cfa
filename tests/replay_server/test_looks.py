"""Looks beside the sampler: stored steps by key, and uniformly; and how often a sampler drew what it draws."""

from collections import Counter

import numpy as np
import pytest
from replay_helpers import Stream, make_spec

from laser.ports import ColumnSpec, ColumnWrites, PortError, SampleRequest, wait
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.serving.shard import Shard

LENGTH = 4


def make_shard(*, shard=0, num_shards=1, frames=False, capacity_unrolls=20, rate=None):
    config = ReplayConfig(capacity_steps=capacity_unrolls * LENGTH * num_shards, num_shards=num_shards)
    members = [MemberSettings(0, columns=(ColumnSpec("number"),), rate=rate or RateLimit())]
    return Shard(make_spec(LENGTH, frames=frames), config, members, shard=shard, seed=3)


def sample(replay, num, **how):
    return wait(replay.sample(SampleRequest(0, num, view="steps", **how)), 5, "sample")


def fill(replay, source, num):
    for _ in range(num):
        wait(replay.insert(source.next_unroll()), 5, "insert")


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("frames", [False, True])
def test_steps_are_read_again_by_their_keys(num_steps, frames):
    shard = make_shard(frames=frames)
    fill(shard, Stream(shard.spec, np.random.default_rng(0)), 10)
    drawn = sample(shard, 30, n_step=num_steps, discount=0.9)
    wait(shard.write(ColumnWrites(0, drawn.keys[:1], {"number": np.full((1, 1), 7.0, np.float32)})), 5, "write")
    again = sample(shard, 30, n_step=num_steps, discount=0.9, keys=drawn.keys)
    np.testing.assert_array_equal(again.keys, drawn.keys)
    for name, value in drawn.unrolls.fields.items():
        np.testing.assert_array_equal(again.unrolls.fields[name], value)
    np.testing.assert_array_equal(again.unrolls.headers, drawn.unrolls.headers)
    assert again.columns["number"][0] == 7.0, "columns are as they are now"
    shard.close()


@pytest.mark.parametrize("frames", [False, True])
def test_what_is_gone_is_left_out(frames):
    shard = make_shard(frames=frames)
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=3)
    fill(shard, source, 20)
    old = sample(shard, 40).keys
    fill(shard, source, 10)
    alive = sample(shard, 40, keys=old)
    assert 0 < len(alive.keys) < 40
    generation = shard._store.pages.generation
    assert (generation[alive.keys["page"]] == alive.keys["generation"]).all()
    fill(shard, source, 40)
    assert len(sample(shard, 40, keys=old).unrolls) == 0
    outside = old.copy()
    outside["page"] = 10_000
    assert len(sample(shard, 40, keys=outside).keys) == 0
    shard.close()


def test_a_uniform_look_is_uniform_and_moves_no_limiter():
    shard = make_shard(rate=RateLimit(samples_per_insert=1.0, min_steps=1, max_insert_steps=4, max_sample_steps=4))
    fill(shard, Stream(shard.spec, np.random.default_rng(0)), 2)
    before = shard.stats().result().members[0]
    looked = sample(shard, 6000, uniform=True)
    after = shard.stats().result().members[0]
    assert before == after
    counts = Counter(tuple(key) for key in looked.keys.tolist())
    expected = 6000 / looked.num_stored
    assert len(counts) == looked.num_stored
    limit = len(counts) + 3.1 * np.sqrt(2 * len(counts)) + 8
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < limit
    np.testing.assert_allclose(looked.probabilities, 1 / looked.num_stored)
    assert looked.num_draws is None
    shard.close()


def test_a_uniform_look_waits_until_something_is_stored():
    shard = make_shard()
    future = shard.sample(SampleRequest(0, 4, view="steps", uniform=True))
    assert not future.done()
    fill(shard, Stream(shard.spec, np.random.default_rng(0)), 2)
    assert len(wait(future, 5, "look").keys) == 4
    shard.close()


def test_looks_go_to_the_shards_that_hold_the_steps():
    shards = [make_shard(shard=k, num_shards=2) for k in range(2)]
    client = ShardedReplay(shards, seed=1)
    for actor in range(2):
        fill(client, Stream(shards[0].spec, np.random.default_rng(actor), actor=actor), 8)
    drawn = sample(client, 40)
    again = sample(client, 40, keys=drawn.keys)
    wanted = Counter(tuple(key) for key in drawn.keys.tolist())
    assert Counter(tuple(key) for key in again.keys.tolist()) == wanted
    actors = dict(zip([tuple(k) for k in drawn.keys.tolist()], drawn.unrolls.headers["actor"].tolist(), strict=True))
    for key, actor in zip(again.keys.tolist(), again.unrolls.headers["actor"].tolist(), strict=True):
        assert actors[tuple(key)] == actor
    assert set(sample(client, 400, uniform=True).keys["shard"].tolist()) == {0, 1}
    wrong = drawn.keys.copy()
    wrong["shard"] = 5
    with pytest.raises(PortError, match="keys name shards outside"):
        sample(client, 40, keys=wrong)
    for shard in shards:
        shard.close()


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (SampleRequest(0, 4, view="unrolls", uniform=True), "keys and uniform are of the view 'steps', got 'unrolls'"),
        (SampleRequest(0, 4, view="steps", keys=np.zeros(3)), "keys must be 4, got 3"),
    ],
)
def test_looks_that_cannot_be_are_refused(request_, line):
    shard = make_shard()
    with pytest.raises(PortError, match=line):
        wait(shard.sample(request_), 5, "look")
    shard.close()


@pytest.mark.parametrize("view", ["steps", "unrolls"])
def test_draws_are_counted_per_item_and_begin_anew_with_it(view):
    shard = make_shard(capacity_unrolls=6)
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=2)
    counts = Counter()
    for _ in range(40):
        fill(shard, source, 1)
        if not shard.stats().result().num_steps:
            continue
        drawn = wait(shard.sample(SampleRequest(0, 5, view=view)), 5, "sample")
        keys = [tuple(key) for key in drawn.keys.tolist()]
        counts.update(keys)
        assert drawn.num_draws.tolist() == [counts[key] for key in keys]
    assert len({key[2] for key in counts}) > 2, "no page was used twice"
    shard.close()


def test_draws_are_counted_up_to_65535_and_stay_there():
    shard = make_shard(capacity_unrolls=6)
    fill(shard, Stream(shard.spec, np.random.default_rng(0), mean_length=2), 3)
    num_draws = shard._members[0].num_draws
    num_draws[:] = 65_520
    for _ in range(40):
        before = num_draws.copy()
        drawn = wait(shard.sample(SampleRequest(0, 5, view="steps")), 5, "sample")
        assert (num_draws >= before).all()
        times = Counter(map(tuple, drawn.keys.tolist()))
        for key, count in zip(drawn.keys, drawn.num_draws.tolist(), strict=True):
            assert count == min(int(before[key["page"], key["row"]]) + times[tuple(key.tolist())], 65_535)
    assert num_draws.max() == 65_535
    shard.close()
