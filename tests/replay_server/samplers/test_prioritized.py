"""The prioritised sampler against a naive twin, through a shard in use."""

from collections import Counter

import numpy as np
import pytest
from replay_helpers import Stream, first_keys, join, make_spec, saved, stored_items

from laser.ports import ColumnSpec, ColumnWrites, PortError, SampleRequest, wait
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

LENGTH = 4
PRIORITY = (ColumnSpec("priority", 1.0),)


def make_shard(members, *, capacity_unrolls=40, shard=0, num_shards=1, **config):
    settings = {"sampler": "per", "sequence_starts": "step", "num_shards": num_shards}
    settings |= {"capacity_steps": capacity_unrolls * LENGTH}
    config = ReplayConfig(**settings | config)
    return Shard(make_spec(LENGTH), config, members, shard=shard, seed=3)


def draw(shard, view, num=32, member=0):
    return wait(shard.sample(SampleRequest(member, num, view=view)), 5, "sample")


def write(shard, sample, view, rng, member=0):
    """Write random priorities for what was drawn; return them by item."""
    firsts = first_keys(sample)
    values = rng.random((len(sample.keys), 1)).astype(np.float32) * (rng.random((len(sample.keys), 1)) < 0.9)
    receipt = wait(shard.write(ColumnWrites(member, firsts, {"priority": values})), 5, "write")
    keys = [tuple(key) for key in firsts.tolist()]
    return dict(zip(keys, values[:, 0].tolist(), strict=True)), receipt


class Twin:
    """Weights in a dict by (page, generation, row), written slowly."""

    def __init__(self, exponent):
        self.exponent, self.weights = exponent, {}

    def follow(self, shard, view):
        """Add what is new at the largest weight, drop what is gone."""
        live = stored_items(shard._store.index, view)
        self.weights = {key: weight for key, weight in self.weights.items() if key in live}
        largest = max(self.weights.values(), default=0.0) or 1.0
        self.weights |= {key: largest for key in live if key not in self.weights}

    def write(self, priorities):
        for (_, page, generation, row), value in priorities.items():
            if (page, generation, row) in self.weights:
                self.weights[page, generation, row] = float(np.float32(value)) ** self.exponent


@pytest.mark.parametrize("view", ["unrolls", "steps", "sequences"])
@pytest.mark.parametrize("mean_length", [2, 20])
def test_it_keeps_what_the_naive_twin_keeps(view, mean_length):
    rng = np.random.default_rng(mean_length)
    shard = make_shard([MemberSettings(0, columns=PRIORITY)], priority_exponent=0.7, priority_uniform=0.2)
    sources = [Stream(shard.spec, rng, environment=e, mean_length=mean_length) for e in range(2)]
    twin, kept = Twin(0.7), None
    for turn in range(60):
        wait(shard.insert(join([source.next_unroll() for source in sources[: 1 + turn % 2]])), 5, "insert")
        twin.follow(shard, view)
        if not twin.weights:
            continue
        sample = draw(shard, view)
        total = sum(twin.weights.values())
        for key, probability in zip(first_keys(sample).tolist(), sample.probabilities.tolist(), strict=True):
            expected = 0.8 * twin.weights[key[1:]] / total + 0.2 / len(twin.weights)
            assert probability == pytest.approx(expected, rel=1e-6)
        assert sample.num_stored == len(twin.weights)
        priorities, _ = write(shard, sample, view, rng)
        twin.write(priorities)
        shard.check_valid()
        if turn == 10:
            kept = sample
    _, receipt = write(shard, kept, view, rng)
    assert receipt.num_stale == len(kept.keys), "the oldest pages have been reused"
    twin.follow(shard, view)
    np.testing.assert_allclose(sum(twin.weights.values()), shard._members[0].sampler(view)._tree.total, rtol=1e-6)
    assert shard.stats().result().ledger.removed > 20
    shard.close()


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(0.5, [0.437998, 0.220627, 0.030894, 0.310481]), (0.6, [0.466769, 0.204987, 0.019372, 0.308871])],
)
def test_known_probabilities(exponent, expected):
    shard = make_shard([MemberSettings(0, columns=PRIORITY)], priority_exponent=exponent, priority_uniform=0.0)
    wait(shard.insert(Stream(shard.spec, np.random.default_rng(0)).next_unroll()), 5, "insert")
    sample = draw(shard, "steps", 200)
    _, first = np.unique(sample.keys["row"], return_index=True)
    errors = np.array([2.0, 0.5, 0.0, -1.0], np.float32)
    priorities = (np.abs(errors) + 0.01)[:, None]
    wait(shard.write(ColumnWrites(0, sample.keys[first], {"priority": priorities})), 5, "write")
    sample = draw(shard, "steps", 1000)
    got = dict(zip(sample.keys["row"].tolist(), sample.probabilities.tolist(), strict=True))
    assert [got[row] for row in range(4)] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("view", ["unrolls", "steps", "sequences"])
def test_draws_follow_the_stated_probabilities(view):
    rng = np.random.default_rng(1)
    shard = make_shard([MemberSettings(0, columns=PRIORITY)], priority_uniform=0.1)
    source = Stream(shard.spec, rng)
    for _ in range(30):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    for _ in range(5):
        write(shard, draw(shard, view), view, rng)
    counts, stated, num = Counter(), {}, 20_000
    sample = draw(shard, view, num)
    keys = [tuple(key) for key in first_keys(sample).tolist()]
    counts.update(keys)
    stated.update(zip(keys, sample.probabilities.tolist(), strict=True))
    assert sum(stated.values()) == pytest.approx(1.0, abs=1e-9)
    statistic = sum((counts[key] - num * p) ** 2 / (num * p) for key, p in stated.items())
    freedom = len(stated) - 1
    limit = freedom + 3.1 * np.sqrt(2 * freedom) + 8
    assert statistic < limit
    uniform = num / len(stated)
    assert sum((count - uniform) ** 2 / uniform for count in counts.values()) > limit
    shard.close()


def test_members_have_priorities_of_their_own():
    rng = np.random.default_rng(1)
    members = [MemberSettings(0, columns=PRIORITY), MemberSettings(1, columns=PRIORITY), MemberSettings(2)]
    shard = make_shard(members, priority_uniform=0.0)
    source = Stream(shard.spec, rng)
    for _ in range(10):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    sample = draw(shard, "unrolls", 100, member=0)
    values = (sample.unrolls.headers["sequence"] == 4).astype(np.float32)[:, None]
    wait(shard.write(ColumnWrites(0, sample.keys, {"priority": values})), 5, "write")
    assert set(draw(shard, "unrolls", 50, member=0).unrolls.headers["sequence"].tolist()) == {4}
    other = draw(shard, "unrolls", 100, member=1)
    np.testing.assert_allclose(other.probabilities, 1 / 10)
    with pytest.raises(PortError, match="nothing for a member that lacks the column"):
        draw(shard, "unrolls", member=2)
    shard.close()


def test_where_nothing_has_a_priority_all_are_alike():
    shard = make_shard([MemberSettings(0, columns=PRIORITY)], priority_uniform=0.0)
    source = Stream(shard.spec, np.random.default_rng(1))
    for _ in range(10):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    sample = draw(shard, "unrolls", 200)
    wait(shard.write(ColumnWrites(0, sample.keys, {"priority": np.zeros((200, 1), np.float32)})), 5, "write")
    np.testing.assert_allclose(draw(shard, "unrolls").probabilities, 1 / 10)
    shard.close()


@pytest.mark.parametrize("sampler", ["per", "rank"])
def test_probabilities_are_global_over_shards(sampler):
    rng = np.random.default_rng(1)
    shards = [
        make_shard([MemberSettings(0, columns=PRIORITY)], capacity_unrolls=80, shard=k, num_shards=2, sampler=sampler)
        for k in range(2)
    ]
    client = ShardedReplay(shards, seed=3)
    for actor, num in ((0, 30), (1, 10)):
        source = Stream(shards[0].spec, rng, actor=actor)
        for _ in range(num):
            wait(client.insert(source.next_unroll()), 5, "insert")
    for _ in range(10):
        write(client, draw(client, "unrolls"), "unrolls", rng)
    num, counts, stated = 0, Counter(), {}
    for _ in range(60):
        sample = draw(client, "unrolls", 200)
        keys = [tuple(key) for key in sample.keys.tolist()]
        counts.update(keys)
        stated.update(zip(keys, sample.probabilities.tolist(), strict=True))
        num += 200
    assert len(stated) == sample.num_stored == 40
    assert sum(stated.values()) == pytest.approx(1.0, abs=1e-9)
    statistic = sum((counts[key] - num * p) ** 2 / (num * p) for key, p in stated.items())
    assert statistic < 39 + 3.1 * np.sqrt(2 * 39) + 8
    assert sum((count - num / 40) ** 2 / (num / 40) for count in counts.values()) > 39 + 3.1 * np.sqrt(2 * 39) + 8
    for shard in shards:
        shard.close()


def test_a_write_to_an_unroll_that_only_waits_in_a_queue_gives_it_no_weight():
    shard = make_shard([MemberSettings(0, online_capacity=10, columns=PRIORITY)], capacity_unrolls=10)
    source = Stream(shard.spec, np.random.default_rng(1), mean_length=2)
    for _ in range(10):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    sample = draw(shard, "unrolls", 60)
    other = Stream(shard.spec, np.random.default_rng(2), actor=1, member=1, mean_length=2)
    shard.add_member(MemberSettings(1))
    for _ in range(10):
        wait(shard.insert(other.next_unroll()), 5, "insert")
    _, receipt = write(shard, sample, "unrolls", np.random.default_rng(3))
    assert receipt.num_written == 60, "the pages were not kept by the queue"
    shard.check_valid()
    assert set(draw(shard, "unrolls", 60).unrolls.headers["actor"].tolist()) == {1}
    shard.close()


@pytest.mark.parametrize("view", ["steps", "sequences"])
def test_priorities_are_restored(view):
    rng = np.random.default_rng(1)
    shard = make_shard([MemberSettings(0, columns=PRIORITY)])
    source = Stream(shard.spec, rng)
    for _ in range(30):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    for _ in range(5):
        write(shard, draw(shard, view), view, rng)
    other = make_shard([MemberSettings(0, columns=PRIORITY)])
    other.load_state_dict(saved(shard.state_dict()))
    other.check_valid()
    for _ in range(5):
        one, two = draw(shard, view), draw(other, view)
        assert one.keys.tolist() == two.keys.tolist()
        np.testing.assert_array_equal(one.probabilities, two.probabilities)
    assert len(set(one.probabilities.tolist())) > 10
    for _ in range(20):  # pages come and go as before
        unroll = source.next_unroll()
        for each in (shard, other):
            wait(each.insert(unroll), 5, "insert")
            each.check_valid()
        assert draw(shard, view).keys.tolist() == draw(other, view).keys.tolist()
    shard.close()
    other.close()
