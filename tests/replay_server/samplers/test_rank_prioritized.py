import numpy as np
import pytest
from replay_helpers import Stream, first_keys, join, make_keys, make_spec, stored_items

from laser.ports import ColumnSpec, ColumnWrites, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

LENGTH = 4


def make_shard(exponent, uniform=0.0, capacity_unrolls=50):
    config = ReplayConfig(
        capacity_steps=capacity_unrolls * LENGTH,
        sampler="rank",
        sequence_starts="step",
        priority_exponent=exponent,
        priority_uniform=uniform,
    )
    return Shard(make_spec(LENGTH), config, [MemberSettings(0, columns=(ColumnSpec("priority", 1.0),))])


def filled(shard, num=6, mean_length=None):
    rng = np.random.default_rng(0)
    stream = Stream(shard.spec, rng, mean_length=mean_length)
    for _ in range(num):
        wait(shard.insert(stream.next_unroll()), 5, "insert")
    chances(shard)  # a sampler begins with the first draw
    return stream, rng


def write(shard, items, priorities):
    pages, rows = np.divmod(np.asarray(items), LENGTH)
    keys = make_keys(0, pages, shard._store.index.pages.generation[pages], rows)
    values = np.asarray(priorities, np.float32)[:, None]
    wait(shard.write(ColumnWrites(0, keys, {"priority": values})), 5, "write")


def chances(shard, num=64):
    sample = wait(shard.sample(SampleRequest(0, num, view="steps")), 5, "sample")
    return {
        int(key["page"]) * LENGTH + int(key["row"]): chance
        for key, chance in zip(sample.keys, sample.probabilities, strict=True)
    }


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(0.5, [0.359136, 0.207348, 0.179568, 0.253948]), (0.7, [0.406841, 0.188556, 0.154164, 0.25044])],
)
def test_known_probabilities(exponent, expected):
    shard = make_shard(exponent)
    filled(shard, num=1)
    live = np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)
    assert len(live) == 4
    write(shard, live, [2.0, 0.5, 0.0, -1.0])  # errors count by their size
    got = chances(shard)
    assert [got[item] for item in live.tolist()] == pytest.approx(expected, abs=1e-6)


def literal(priorities, exponent):
    """Rank^-alpha over its sum; equal priorities share the best of their ranks."""
    weights = {i: (1 + sum(other > p for other in priorities.values())) ** -exponent for i, p in priorities.items()}
    return {i: weight / sum(weights.values()) for i, weight in weights.items()}


class Twin:
    """What a rank sampler keeps, by (page, generation, row), counted out item by item."""

    def __init__(self, exponent):
        self.exponent, self.at_sort, self.num_written = exponent, [], 0
        self.priorities, self.weights = {}, {}

    def follow(self, shard, view):
        """Drop what is gone, add what is new at rank 1."""
        live = stored_items(shard._store.index, view)
        self.priorities = {key: value for key, value in self.priorities.items() if key in live}
        self.weights = {key: self.weights.get(key, 1.0) for key in live}

    def write(self, values):
        for key, value in values.items():
            self.priorities[key] = value
            self.weights[key] = (1 + sum(other > value for other in self.at_sort)) ** -self.exponent
        self.num_written += len(values)
        if self.num_written >= len(self.weights):
            self.num_written, self.at_sort = 0, list(self.priorities.values())
            for key, value in self.priorities.items():
                self.weights[key] = (1 + sum(other > value for other in self.at_sort)) ** -self.exponent


@pytest.mark.parametrize("view", ["unrolls", "steps", "sequences"])
@pytest.mark.parametrize("mean_length", [2, 20])
def test_it_keeps_what_the_naive_twin_keeps(view, mean_length):
    rng = np.random.default_rng(mean_length)
    shard, twin, num_sorts = make_shard(0.7, uniform=0.2, capacity_unrolls=30), Twin(0.7), 0
    sources = [Stream(shard.spec, rng, environment=e, mean_length=mean_length) for e in range(2)]
    for turn in range(80):
        wait(shard.insert(join([source.next_unroll() for source in sources[: 1 + turn % 2]])), 5, "insert")
        twin.follow(shard, view)
        if not twin.weights:
            continue
        sample = wait(shard.sample(SampleRequest(0, 24, view=view)), 5, "sample")
        total, num_stored = sum(twin.weights.values()), len(twin.weights)
        assert sample.num_stored == num_stored
        firsts = first_keys(sample)
        for key, probability in zip(firsts.tolist(), sample.probabilities.tolist(), strict=True):
            assert probability == pytest.approx(0.8 * twin.weights[key[1:]] / total + 0.2 / num_stored, rel=1e-6)
        keys = np.unique(firsts)
        values = rng.integers(0, 9, (len(keys), 1)).astype(np.float32)  # some equal each other
        wait(shard.write(ColumnWrites(0, keys, {"priority": values})), 5, "write")
        twin.write(dict(zip([key[1:] for key in keys.tolist()], values[:, 0].tolist(), strict=True)))
        num_sorts += twin.num_written == 0
        shard.check_valid()
    assert num_sorts > 5
    assert shard.stats().result().ledger.removed > 20


def test_after_a_sort_the_weights_are_the_ranks():
    shard = make_shard(0.7)
    filled(shard, num=10)
    rng = np.random.default_rng(1)
    live = np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)
    for _ in range(3):  # each writes as many numbers as there are items, and so sorts at its end
        priorities = rng.exponential(size=len(live))
        write(shard, live, priorities)
        expected = literal(dict(zip(live.tolist(), priorities.tolist(), strict=True)), 0.7)
        for item, chance in chances(shard).items():
            assert chance == pytest.approx(expected[item], rel=1e-6)


def test_new_items_come_first_and_written_ones_take_their_place_in_the_last_order():
    shard = make_shard(1.0)
    stream, _ = filled(shard, num=2)
    live = np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)
    write(shard, live, np.arange(8.0))
    write(shard, live[:1], [6.5])  # would have been second
    wait(shard.insert(stream.next_unroll()), 5, "insert")
    got = chances(shard, num=256)
    new = [item for item in got if item not in live]
    assert len(new) == 4
    total = 4 + 0.5 + sum(1.0 / rank for rank in range(1, 8))
    assert [got[item] for item in new] == pytest.approx([1 / total] * 4)
    assert got[int(live[0])] == pytest.approx(0.5 / total)
    assert got[int(live[7])] == pytest.approx(1.0 / total)


def test_new_items_come_first_also_when_nobody_has_the_first_rank_any_more():
    shard = make_shard(1.0)
    stream, _ = filled(shard, num=2)
    live = np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)
    write(shard, live, np.arange(8.0))
    write(shard, live[7:], [0.5])  # the first is now among the last
    wait(shard.insert(stream.next_unroll()), 5, "insert")
    got = chances(shard, num=256)
    second = got[int(live[6])]
    assert [got[item] / second for item in got if item not in live] == pytest.approx([2.0] * 4)


def test_new_items_come_first_also_after_a_sort_that_others_caused():
    shard = make_shard(1.0)
    stream, _ = filled(shard, num=2)
    live = np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)
    write(shard, live, np.arange(8.0))
    wait(shard.insert(stream.next_unroll()), 5, "insert")
    write(shard, np.tile(live, 2), np.tile(np.arange(8.0), 2))
    got = chances(shard, num=256)
    first = got[int(live[7])]
    assert [got[item] / first for item in got if item not in live] == pytest.approx([1.0] * 4)


def test_one_huge_number_takes_no_more_than_its_rank():
    shard = make_shard(0.7)
    filled(shard, num=10)
    live = np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)
    write(shard, live, [1e12, *np.linspace(0.1, 1.0, len(live) - 1)])
    expected = literal(dict(enumerate([1e12, *np.linspace(0.1, 1.0, len(live) - 1)])), 0.7)[0]
    assert chances(shard)[int(live[0])] == pytest.approx(expected)
    assert expected < 0.2


def test_frequencies_are_the_probabilities_it_names():
    shard = make_shard(0.6, uniform=0.1)
    filled(shard, num=5)
    rng = np.random.default_rng(2)
    live = np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)
    write(shard, live, rng.exponential(size=len(live)))
    counts, named, num = {}, {}, 200
    for _ in range(num):
        sample = wait(shard.sample(SampleRequest(0, 100, view="steps")), 5, "sample")
        for key, chance in zip(sample.keys, sample.probabilities, strict=True):
            item = int(key["page"]) * LENGTH + int(key["row"])
            counts[item] = counts.get(item, 0) + 1
            named[item] = chance
    assert sum(named.values()) == pytest.approx(1.0)
    for item, chance in named.items():
        assert abs(counts[item] / (100 * num) - chance) < 5 * np.sqrt(chance / (100 * num))


def test_a_saved_shard_goes_on_alike():
    shard = make_shard(0.7)
    stream, rng = filled(shard, num=8, mean_length=6)
    write(shard, np.flatnonzero(shard._store.index.episode_of_row.reshape(-1) >= 0)[:9], rng.random(9))
    other = make_shard(0.7)
    other.load_state_dict(shard.state_dict())
    for _ in range(30):
        unroll = stream.next_unroll()
        for one in (shard, other):
            wait(one.insert(join([unroll])), 5, "insert")
            sample = wait(one.sample(SampleRequest(0, 16, view="steps")), 5, "sample")
            values = np.cos(np.arange(16.0)[:, None]).astype(np.float32)
            wait(one.write(ColumnWrites(0, sample.keys, {"priority": values})), 5, "write")
            one.check_valid()
        assert chances(shard) == chances(other)
