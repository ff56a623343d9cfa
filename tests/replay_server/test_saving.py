"""A restored shard continues as if nothing had happened."""

import dataclasses

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec, saved

from laser.ports import ColumnSpec, ColumnWrites, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.serving.shard import Shard


def make_shard(frames=True, seed=5, capacity_steps=100, **settings):
    members = [
        MemberSettings(0, 40, RateLimit(2.0, 8, 12, 64, error_buffer=400), (ColumnSpec("priority", 1.0),)),
        MemberSettings(1),
    ]
    return Shard(make_spec(frames=frames), ReplayConfig(capacity_steps=capacity_steps, **settings), members, seed=seed)


def go_on(shard, streams, num):
    """Return everything the shard hands out while it is used for a while."""
    seen = []
    for _ in range(num):
        receipt = wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")
        replayed = wait(shard.sample(SampleRequest(0, 4)), 5, "sample")
        steps = wait(shard.sample(SampleRequest(1, 8, view="steps", n_step=3, discount=0.9)), 5, "sample")
        online = wait(shard.sample(SampleRequest(0, 2, table="online")), 5, "sample")
        values = np.full((4, 4), float(len(seen)), np.float32)
        written = wait(shard.write(ColumnWrites(0, replayed.keys, {"priority": values})), 5, "write")
        for sample in (replayed, steps, online):
            seen += [sample.keys.tobytes(), sample.unrolls.headers.tobytes(), sample.probabilities.tobytes()]
            seen += [array.tobytes() for array in sample.unrolls.fields.values()]
            seen += [array.tobytes() for array in sample.columns.values()]
            if sample.unrolls.frames:
                packed = sample.unrolls.frames["image"]
                seen += [packed[i].tobytes() for i in range(len(sample.unrolls))]
        seen += [receipt, written]
    stats = shard.stats().result()
    return [*seen, dataclasses.replace(stats, arrived={})]  # which counts since the shard was made


@pytest.mark.parametrize("frames", [True, False])
def test_the_next_hundred_calls_are_the_same(frames):
    shard, other = make_shard(frames=frames), make_shard(frames=frames, seed=99)
    streams = [[Stream(shard.spec, np.random.default_rng(e), environment=e) for e in range(2)] for _ in range(2)]
    go_on(shard, streams[0], 40)
    other.load_state_dict(saved(shard.state_dict()))
    other.check_valid()
    for stream in streams[1]:
        for _ in range(40):
            stream.next_unroll()
    assert go_on(other, streams[1], 34) == go_on(shard, streams[0], 34)
    shard.close()
    other.close()


def test_without_the_generator_the_draws_would_differ():
    shard, other = make_shard(), make_shard(seed=99)
    stream = Stream(shard.spec, np.random.default_rng(0))
    go_on(shard, [stream, Stream(shard.spec, np.random.default_rng(1), environment=1)], 20)
    state = shard.state_dict()
    state["rng"] = other.state_dict()["rng"]
    other.load_state_dict(state)
    keys = [wait(each.sample(SampleRequest(1, 50)), 5, "sample").keys.tolist() for each in (shard, other)]
    assert keys[0] != keys[1]
    shard.close()
    other.close()


def test_what_another_replay_held_is_refused():
    state = saved(make_shard().state_dict())
    with pytest.raises(ValueError, match="saved replay was made for pages"):
        make_shard(capacity_steps=200).load_state_dict(state)
    with pytest.raises(ValueError, match="saved replay was made for images"):
        make_shard(frames=False).load_state_dict(state)
    make_shard(priority_exponent=0.9).load_state_dict(state)  # nothing goes by it
    state = saved(make_shard(sampler="per").state_dict())
    with pytest.raises(ValueError, match="saved replay was made for priority exponent"):
        make_shard(sampler="per", priority_exponent=0.9).load_state_dict(state)


def test_what_another_sampler_drew_from_is_refused_though_it_reads_the_same_column():
    state = saved(make_shard(sampler="per").state_dict())
    with pytest.raises(ValueError, match="saved replay was made for sampler per, this one has rank"):
        make_shard(sampler="rank").load_state_dict(state)
