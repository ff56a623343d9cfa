"""Sequences that begin at any step: each start as often as another, and each row the one of its environment."""

from collections import Counter

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import ColumnSpec, ColumnWrites, PortError, PortTimeoutError, SampleRequest, wait
from laser.replay_stats import ItemCounts
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.samplers.uniform_unrolls import UniformUnrolls
from replay_server.serving.shard import Shard

LENGTH = 4
AT_STEPS = ReplayConfig(sequence_starts="step", capacity_steps=10_000)


def fill(shard, streams, num_unrolls):
    for _ in range(num_unrolls):
        wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")


def make(capacity_steps=10_000, num_unrolls=9, mean_length=6, columns=()):
    """Return a shard and its three streams; rows are numbered by what they show."""
    rng = np.random.default_rng(3)
    config = ReplayConfig(sequence_starts="step", capacity_steps=capacity_steps)
    shard = Shard(make_spec(LENGTH), config, [MemberSettings(0, columns=columns)])
    streams = [Stream(make_spec(LENGTH), rng, environment=number, mean_length=mean_length) for number in range(3)]
    fill(shard, streams, num_unrolls)
    return shard, streams


def draw(shard, num, **how):
    return wait(shard.sample(SampleRequest(0, num, view="sequences", **how)), 5, "sequences")


def starts_of(sample):
    """Return (environment, number of the row in its stream) of each item, by what its first row shows."""
    shown = sample.unrolls.fields["observations/observation"][:, 0, 0].astype(int)
    return [tuple(divmod(number, 10_000)) for number in shown.tolist()]


def naive_starts(shard, streams):
    """Return the starts by the streams' own logs: stored steps whose following T - 1 rows are stored, too.

    What is stored is read from the pages' headers. A row is stored as long as its unroll holds a row of a live episode,
    if only its last observation, since unrolls are kept whole.
    """
    index, found = shard._store.index, set()
    kept: dict[int, set[int]] = {}
    steps: set[tuple[int, int]] = set()
    for page in {page for episode in index.episodes.values() for page in episode.pages}:
        header = index.pages.headers[page]
        environment, first = int(header["environment"]), int(header["sequence"]) * LENGTH
        kept.setdefault(environment, set()).update(range(first, first + LENGTH))
        live = np.flatnonzero(index.episode_of_row[page] >= 0)
        steps |= {(environment, first + row) for row in live.tolist()}
    for environment, row in steps:
        if all(later in kept[environment] for later in range(row, row + LENGTH)):
            found.add((environment, row))
            assert streams[environment].log[row][2], "a start is a step"
    return found


def chi_square_limit(freedom):
    """Return a bound above the upper 0.001 quantile of chi-square: alpha = 0.001, and seeds are fixed."""
    return freedom + 3.1 * np.sqrt(2 * freedom) + 8


@pytest.mark.parametrize(("capacity_steps", "num_unrolls"), [(10_000, 9), (100, 40)])
@pytest.mark.parametrize("mean_length", [2, 6, None])
def test_each_start_is_drawn_equally_often(capacity_steps, num_unrolls, mean_length):
    shard, streams = make(capacity_steps, num_unrolls, mean_length)
    shard.check_valid()
    expected = naive_starts(shard, streams)
    num_draws = 400 * len(expected)
    counts = Counter(starts_of(draw(shard, num_draws)))
    assert set(counts) == expected
    assert len({row % LENGTH for _, row in expected}) == LENGTH, "every row of an unroll begins a sequence"
    mean = num_draws / len(expected)
    assert sum((counts[start] - mean) ** 2 / mean for start in expected) < chi_square_limit(len(expected) - 1)
    sample = draw(shard, 8)
    assert sample.num_stored == len(expected)
    np.testing.assert_allclose(sample.probabilities, 1 / len(expected))
    assert wait(shard.stats(), 5, "stats").num_stored.sequences == len(expected)
    # The data can tell: first rows of stored unrolls alone are other starts.
    assert set(starts_of(wait(shard.sample(SampleRequest(0, 500)), 5, "unrolls"))) != expected


@pytest.mark.parametrize(("capacity_steps", "num_unrolls"), [(10_000, 9), (100, 40)])
def test_each_row_is_that_of_the_environment_at_its_place(capacity_steps, num_unrolls):
    shard, streams = make(capacity_steps, num_unrolls)
    sample = draw(shard, 500)
    fields, crosses, ends = sample.unrolls.fields, 0, 0
    for item, (environment, row) in enumerate(starts_of(sample)):
        stream = streams[environment]
        numbers = np.arange(row, row + LENGTH + 1)
        rows = [stream.log[number] for number in numbers]
        shown = stream.base + numbers
        np.testing.assert_array_equal(fields["observations/observation"][item, :, 0], shown)
        np.testing.assert_array_equal(fields["first"][item], [each[1] == 0 for each in rows])
        np.testing.assert_array_equal(fields["valid"][item], [each[2] for each in rows[:-1]])
        np.testing.assert_array_equal(fields["terminated"][item], [each[3] for each in rows[:-1]])
        np.testing.assert_array_equal(fields["rewards"][item], shown[:-1])
        np.testing.assert_array_equal(fields["actions"][item], numbers[:-1] % 3)
        np.testing.assert_array_equal(fields["mu/logits"][item], np.repeat(shown[:-1, None], 3, 1))
        begins = rows[0][1] == 0
        assert fields["last_reward"][item] == (0 if begins else stream.base + row - 1)
        assert fields["last_action"][item] == (0 if begins else (row - 1) % 3)
        header = sample.unrolls.headers[item]
        assert (header["environment"], header["episode"], header["step_in_episode"]) == (environment, *rows[0][:2])
        assert (sample.origins[item]["member"] == 0).all()
        crosses += row % LENGTH > 0
        ends += not all(each[2] for each in rows[:-1])
    assert crosses > 100
    assert ends > 100


def test_columns_are_read_and_written_row_by_row():
    """Values written to one sequence come back in every other one that shares rows with it, across unrolls."""
    shard, _ = make(columns=(ColumnSpec("value", -1.0),))
    sample = draw(shard, 1)
    while sample.keys["row"][0, 0] == 0:
        sample = draw(shard, 1)
    assert len(set(sample.keys["page"][0].tolist())) == 2
    ((environment, row),) = starts_of(sample)
    values = np.arange(LENGTH, dtype=np.float32)
    wait(shard.write(ColumnWrites(0, sample.keys.reshape(-1), {"value": values[:, None]})), 5, "write")
    written = {row + place: float(place) for place in range(LENGTH)}
    found = draw(shard, 300)
    for item, (its_environment, start) in enumerate(starts_of(found)):
        known = written if its_environment == environment else {}
        assert found.columns["value"][item].tolist() == [known.get(start + place, -1.0) for place in range(LENGTH)]
    assert any((found.columns["value"] >= 0).any(1))


def test_draws_are_counted_by_their_first_step():
    shard, _ = make(num_unrolls=2)
    seen: Counter = Counter()
    for _ in range(20):
        sample = draw(shard, 5)
        starts = starts_of(sample)
        seen.update(starts)
        assert sample.num_draws.tolist() == [seen[start] for start in starts]


def test_the_counts_stay_right_while_unrolls_come_wait_and_go():
    """Pages outlive their episodes in an online queue, lie apart after a gap, and are used again."""
    rng = np.random.default_rng(0)
    config = ReplayConfig(sequence_starts="step", capacity_steps=60)
    shard = Shard(make_spec(LENGTH), config, [MemberSettings(0, online_capacity=30)])
    streams = [Stream(make_spec(LENGTH), rng, environment=number, mean_length=5) for number in range(3)]
    totals = set()
    for number in range(150):
        stream = streams[rng.integers(3)]
        if rng.random() < 0.1:
            stream.sequence += 1  # an unroll is lost
        wait(shard.insert(stream.next_unroll()), 5, "insert")
        shard.check_valid()
        assert shard._store.index.starts.total == len(naive_starts(shard, streams))
        totals.add(shard._store.index.starts.total)
        if number % 20 == 19:
            queued = wait(shard.stats(), 5, "stats").members[0].online_queued
            wait(shard.sample(SampleRequest(0, queued, "online")), 5, "online")
            shard.check_valid()
    assert len(totals) > 10


@pytest.mark.parametrize("online_capacity", [0, 200])
def test_the_counts_stay_right_when_later_episodes_go_first(online_capacity):
    """As by a remover that chooses by age no more; in an online queue their pages outlive them."""
    rng = np.random.default_rng(2)
    members = [MemberSettings(0, online_capacity=online_capacity)]
    shard = Shard(make_spec(LENGTH), AT_STEPS, members)
    streams = [Stream(make_spec(LENGTH), rng, environment=number, mean_length=5) for number in range(3)]
    fill(shard, streams, 12)
    store = shard._store
    while store.index.finished:
        slots = sorted(store.index.finished)
        store._freed(store.index.forget(store.index.finished[slots[rng.integers(len(slots))]]))
        store.check_valid()
        assert store.index.starts.total == len(naive_starts(shard, streams))


def test_shards_share_the_draws_by_their_starts():
    shards = [Shard(make_spec(LENGTH), AT_STEPS, [MemberSettings(0)], shard=number) for number in range(2)]
    rng = np.random.default_rng(0)
    streams = [Stream(make_spec(LENGTH), rng, environment=number, mean_length=6) for number in range(2)]
    fill(shards[0], streams[:1], 3)
    fill(shards[1], streams[1:], 12)
    replay = ShardedReplay(shards, seed=1)
    draw(replay, 4)
    expected = {start for shard in shards for start in naive_starts(shard, streams)}
    num_draws = 400 * len(expected)
    counts = Counter(starts_of(draw(replay, num_draws)))
    mean = num_draws / len(expected)
    assert set(counts) == expected
    assert sum((counts[start] - mean) ** 2 / mean for start in expected) < chi_square_limit(len(expected) - 1)
    state = replay.client_state()
    del state["sizes"]["sequences"]  # as it was saved before there were sequences
    replay.load_client_state(state)
    assert len(draw(replay, 4).unrolls) == 4


def test_a_restored_shard_draws_the_same():
    shard, _ = make(100, 40)
    state = shard.state_dict()
    wanted = starts_of(draw(shard, 50))
    other = Shard(make_spec(LENGTH), ReplayConfig(sequence_starts="step", capacity_steps=100), [MemberSettings(0)])
    other.load_state_dict(state)
    other.check_valid()
    assert starts_of(draw(other, 50)) == wanted
    # A replay that was saved before goes on either way: it holds nothing about starts.
    plain = Shard(make_spec(LENGTH), ReplayConfig(capacity_steps=100), [MemberSettings(0)])
    plain.load_state_dict(state)
    assert len(wait(plain.sample(SampleRequest(0, 5)), 5, "unrolls").unrolls) == 5
    other.load_state_dict(plain.state_dict())
    other.check_valid()
    assert len(draw(other, 5).unrolls) == 5


def test_what_cannot_be_drawn_is_one_line():
    plain = Shard(make_spec(LENGTH), ReplayConfig(), [MemberSettings(0)])
    with pytest.raises(PortError, match="this replay's sampler draws steps, unrolls, got view 'sequences'"):
        draw(plain, 1)
    assert wait(plain.stats(), 5, "stats").num_stored == ItemCounts()
    shard = Shard(make_spec(LENGTH), AT_STEPS, [MemberSettings(0)])
    with pytest.raises(PortTimeoutError, match="no whole sequence is stored"):
        draw(shard, 1, timeout_s=0.05)


def test_unrolls_are_drawn_as_before_beside_sequences():
    """A shard that counts starts draws the same unrolls as one that does not."""
    drawn = []
    for config in (AT_STEPS, ReplayConfig(capacity_steps=10_000)):
        shard = Shard(make_spec(LENGTH), config, [MemberSettings(0)])
        rng = np.random.default_rng(5)
        fill(shard, [Stream(make_spec(LENGTH), rng, environment=number) for number in range(3)], 9)
        assert isinstance(shard._members[0].sampler("unrolls"), UniformUnrolls)
        drawn.append(wait(shard.sample(SampleRequest(0, 20)), 5, "unrolls"))
    np.testing.assert_array_equal(drawn[0].unrolls.headers, drawn[1].unrolls.headers)
    assert drawn[0].keys.ndim == 1
