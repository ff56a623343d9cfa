"""Several shards as one replay: routing, global probabilities, pooled fresh unrolls, shards that fail."""

from collections import Counter
from concurrent.futures import Future

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.futures import failed
from laser.ports import (
    ColumnSpec,
    ColumnWrites,
    PortAwayError,
    PortClosedError,
    PortError,
    PortTimeoutError,
    SampleRequest,
    wait,
)
from replay_server.client import sharded_replay as module
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.serving.shard import Shard

SPEC = make_spec(frames=True)


@pytest.fixture
def make_replay():
    made = []

    def make(num_shards, *members, capacity_steps=3000, seed=3, in_order=False):
        config = ReplayConfig(capacity_steps=capacity_steps, capacity_bytes=10**6, num_shards=num_shards)
        members = members or (MemberSettings(0, columns=(ColumnSpec("priority"),)),)
        shards = [Shard(SPEC, config, members, shard=k, seed=seed) for k in range(num_shards)]
        client = ShardedReplay(shards, seed=seed, in_order=in_order)
        made.append((client, shards))
        return client, shards

    yield make
    for client, shards in made:
        client.close()
        for shard in shards:
            shard.close()


def fill(client, unrolls_of_actor):
    streams = {}
    for actor, num in unrolls_of_actor.items():
        streams[actor] = Stream(SPEC, np.random.default_rng(abs(actor)), actor=actor)
        for _ in range(num):
            wait(client.insert(streams[actor].next_unroll()), 5, "insert")
    return streams


def test_a_stream_stays_on_one_shard_and_mixed_messages_are_split(make_replay):
    client, shards = make_replay(3)
    streams = [Stream(SPEC, np.random.default_rng(a), actor=a) for a in range(5)]
    for _ in range(4):
        message = join([stream.next_unroll() for stream in streams])
        assert wait(client.insert(message), 5, "insert").num_inserted == 5
        assert wait(client.insert(message), 5, "insert").num_duplicates == 5
    for k, shard in enumerate(shards):
        used = ~shard._store.pages.free.is_free()
        assert set(shard._store.pages.headers["actor"][used].tolist()) == {a for a in range(5) if a % 3 == k}
        shard.check_valid()
    stats = wait(client.stats(), 5, "stats")
    assert stats.ledger.inserted == stats.num_unrolls == 20
    assert [part.num_unrolls for part in stats.shards] == [8, 8, 4]


@pytest.mark.parametrize("view", ["unrolls", "steps"])
def test_probabilities_are_global_and_draws_follow_them(make_replay, view):
    client, shards = make_replay(3)
    fill(client, {0: 30, 1: 10, 2: 3})
    counts, stated = Counter(), {}
    for _ in range(60):
        sample = wait(client.sample(SampleRequest(0, 200, view=view)), 5, "sample")
        items = [tuple(key) for key in sample.keys.tolist()]
        counts.update(items)
        stated.update(zip(items, sample.probabilities.tolist(), strict=True))
        assert len(sample.unrolls) == 200
    num_items = sum(shard.stats().result().num_stored.of(view) for shard in shards)
    assert sample.num_stored == num_items == len(stated)
    np.testing.assert_allclose(list(stated.values()), 1 / num_items)
    expected = 60 * 200 / num_items
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < num_items + 3.1 * np.sqrt(2 * num_items) + 8  # alpha = 0.001, seed fixed
    # Without weighting the shards by size the same test fails.
    assert max(Counter(key[0] for key in counts.elements()).values()) > 1.5 * 60 * 200 / 3


def test_items_of_all_shards_carry_their_own_frames(make_replay):
    client, _ = make_replay(2)
    streams = fill(client, {0: 12, 1: 12})
    sample = wait(client.sample(SampleRequest(0, 40)), 5, "sample")
    for i, header in enumerate(sample.unrolls.headers):
        truth = streams[int(header["actor"])].unroll(int(header["sequence"]))
        np.testing.assert_array_equal(sample.unrolls.frames["image"][i], truth.frames["image"][0])
        np.testing.assert_array_equal(sample.unrolls.fields["rewards"][i], truth.fields["rewards"][0])
    steps = wait(client.sample(SampleRequest(0, 40, view="steps", n_step=2)), 5, "sample")
    windows = steps.frame_windows
    for i, header in enumerate(steps.unrolls.headers):
        truth = streams[int(header["actor"])].unroll(int(header["sequence"]))
        np.testing.assert_array_equal(windows.frames["image"][windows.unrolls[i, 0]], truth.frames["image"][0])
    assert steps.discounts.shape == (40, 1)


def test_a_split_with_old_sizes_states_the_probabilities_it_used(make_replay):
    client, _ = make_replay(2)
    fill(client, {0: 10, 1: 10})
    for _ in range(2):  # learns the sizes 10 and 10, and looks again after 1, 3, 7, ... draws
        wait(client.sample(SampleRequest(0, 10)), 5, "sample")
    grown = Stream(SPEC, np.random.default_rng(9), actor=2)
    for _ in range(30):
        wait(client.insert(grown.next_unroll()), 5, "insert")
    sample = wait(client.sample(SampleRequest(0, 50)), 5, "sample")
    np.testing.assert_allclose(sample.probabilities, np.where(sample.keys["shard"] == 0, 0.5 / 40, 0.5 / 10))
    assert sample.num_stored == 50
    sample = wait(client.sample(SampleRequest(0, 50)), 5, "sample")
    np.testing.assert_allclose(sample.probabilities, 1 / 50)


def test_writes_go_to_the_shard_of_their_key(make_replay):
    client, _ = make_replay(3)
    fill(client, {0: 8, 1: 8, 2: 8})
    keys = wait(client.sample(SampleRequest(0, 60)), 5, "sample").keys
    _, unique = np.unique(keys, return_index=True)
    keys = keys[unique]
    values = np.arange(len(keys), dtype=np.float32)[:, None] + np.zeros((1, 4), np.float32)
    assert wait(client.write(ColumnWrites(0, keys, {"priority": values})), 5, "write").num_written == 4 * len(keys)
    sample = wait(client.sample(SampleRequest(0, 60)), 5, "sample")
    written = {tuple(key): value for key, value in zip(keys.tolist(), values[:, 0].tolist(), strict=True)}
    expected = [written.get(tuple(key), 0.0) for key in sample.keys.tolist()]
    np.testing.assert_array_equal(sample.columns["priority"][:, 0], expected)
    keys["shard"] = 7
    with pytest.raises(PortError, match="outside"):
        wait(client.write(ColumnWrites(0, keys, {"priority": values})), 5, "write")


@pytest.mark.parametrize("at_most", [False, True])
def test_fresh_unrolls_of_all_shards_come_once_and_in_order(make_replay, at_most):
    client, shards = make_replay(3, MemberSettings(0, online_capacity=30))
    streams = [Stream(SPEC, np.random.default_rng(a), actor=a) for a in range(4)]
    taken = []
    future = client.sample(SampleRequest(0, 5, table="online", at_most=at_most))
    for _ in range(10):
        for stream in streams:
            inserted = client.insert(stream.next_unroll())
            while future.done():
                headers = future.result().unrolls.headers
                assert 1 <= len(headers) <= 5
                assert at_most or len(headers) == 5
                taken += list(zip(headers["actor"].tolist(), headers["sequence"].tolist(), strict=True))
                future = client.sample(SampleRequest(0, 5, table="online", at_most=at_most))
            wait(inserted, 5, "insert")
    assert sorted(taken) == [(actor, sequence) for actor in range(4) for sequence in range(10)]
    for actor in range(4):
        assert [sequence for a, sequence in taken if a == actor] == list(range(10))
    stats = wait(client.stats(), 5, "stats").members[0]
    assert stats.online_handed_out == 40
    assert future.cancel()
    for shard in shards:
        shard.check_valid()


def test_left_over_fresh_unrolls_are_kept_for_the_next_batch(make_replay):
    client, _ = make_replay(2, MemberSettings(0, online_capacity=20))
    fill(client, {0: 5, 1: 5})
    sample = wait(client.sample(SampleRequest(0, 7, table="online")), 5, "sample")
    assert len(sample.unrolls) == 7
    assert wait(client.stats(), 5, "stats").online_pooled == 3
    rest = wait(client.sample(SampleRequest(0, 3, table="online")), 5, "sample")
    ids = [(h["actor"], h["sequence"]) for part in (sample, rest) for h in part.unrolls.headers]
    assert len(set(ids)) == 10


def test_deadlines_say_what_was_lacking(make_replay):
    client, _ = make_replay(2, MemberSettings(0, online_capacity=20))
    with pytest.raises(PortTimeoutError, match="no shard has anything stored"):
        client.sample(SampleRequest(0, 4, timeout_s=0.1)).result(timeout=5)
    fill(client, {0: 2})
    with pytest.raises(PortTimeoutError, match="6 fresh unrolls of member 0: 2 came from 2 shards"):
        client.sample(SampleRequest(0, 6, table="online", timeout_s=0.1)).result(timeout=5)


def test_a_sample_waits_until_some_shard_has_something(make_replay):
    client, _ = make_replay(2, MemberSettings(0, rate=RateLimit(min_steps=8)))
    future = client.sample(SampleRequest(0, 4))
    fill(client, {1: 4})
    assert set(wait(future, 5, "sample").keys["shard"].tolist()) == {1}


def test_a_shard_that_fills_a_little_later_is_soon_drawn_from(make_replay):
    client, _ = make_replay(2)
    streams = fill(client, {0: 10, 1: 0})
    wait(client.sample(SampleRequest(0, 10)), 5, "sample")
    for _ in range(10):
        wait(client.insert(streams[1].next_unroll()), 5, "insert")
    found = [wait(client.sample(SampleRequest(0, 10)), 5, "sample").keys["shard"] for _ in range(20)]
    assert 0.4 < np.mean(found[8:]) < 0.6
    looks = [number for number in range(1000) if module._is_time_to_look(number)]
    assert looks == [0, 1, 3, 7, 15, 31, 63, 127, 255, 256, 512, 768]


def test_it_goes_on_without_a_shard_that_fails(make_replay):
    client, shards = make_replay(3, MemberSettings(0, online_capacity=50))
    fill(client, {0: 10, 1: 10, 2: 10})
    wait(client.sample(SampleRequest(0, 30)), 5, "sample")
    shards[1].close()
    sample = wait(client.sample(SampleRequest(0, 30)), 5, "sample")
    assert set(sample.keys["shard"].tolist()) == {0, 2}
    np.testing.assert_allclose(sample.probabilities, 1 / 20)
    assert len(wait(client.sample(SampleRequest(0, 20, table="online")), 5, "online").unrolls) == 20
    stats = wait(client.stats(), 5, "stats")
    assert (stats.num_unrolls, stats.shards[1]) == (20, None)
    for k in (0, 2):
        shards[k].close()
    with pytest.raises(PortClosedError, match="no shard"):
        wait(client.stats(), 5, "stats")
    with pytest.raises(PortClosedError, match="no shard of the replay answers"):
        wait(client.sample(SampleRequest(0, 30)), 5, "sample")
    with pytest.raises(PortClosedError):
        wait(client.sample(SampleRequest(0, 1, table="online")), 5, "online")


class Hanging:
    """A shard that does not answer while it hangs."""

    def __init__(self, shard):
        self._shard, self.hangs = shard, False

    def __getattr__(self, name):
        method = getattr(self._shard, name)
        return (lambda *arguments: Future()) if self.hangs and name in ("sample", "stats", "write") else method


def test_it_goes_on_without_a_shard_that_hangs_until_it_answers_again(make_replay, monkeypatch):
    monkeypatch.setattr(module, "_SILENT_S", 0.2)
    monkeypatch.setattr(module, "_SILENT_AGAIN_S", 0.0)
    monkeypatch.setattr("replay_server.client.deadlines._LOOK_INTERVAL_S", 0.01)
    client, shards = make_replay(2)
    fill(client, {0: 10, 1: 10})
    hanging = client._shards[1] = Hanging(shards[1])
    keys = wait(client.sample(SampleRequest(0, 30)), 5, "sample").keys
    hanging.hangs = True
    with pytest.raises(PortTimeoutError, match="shard 1 of the replay has not answered for"):
        wait(client.sample(SampleRequest(0, 30, timeout_s=0.1)), 5, "sample")
    for _ in range(20):
        sample = wait(client.sample(SampleRequest(0, 30, timeout_s=0.1)), 5, "sample")
        assert set(sample.keys["shard"].tolist()) == {0}
    stats = wait(client.stats(), 5, "stats")
    assert (stats.num_unrolls, stats.shards[1]) == (10, None)
    writes = ColumnWrites(0, keys, {"priority": np.ones((30, 1), np.float32)})
    with pytest.raises(PortClosedError, match="shard 1 of the replay has not answered for"):
        wait(client.write(writes), 5, "write")
    hanging.hangs = False
    found = {
        k for _ in range(20) for k in wait(client.sample(SampleRequest(0, 30)), 5, "sample").keys["shard"].tolist()
    }
    assert found == {0, 1}
    client.close()


class Away:
    """A shard that is out of reach: samples fail at once, and statistics come late."""

    def __init__(self, shard):
        self._shard, self.asked, self.is_away = shard, [], False

    def sample(self, request):
        return failed(PortAwayError("out of reach")) if self.is_away else self._shard.sample(request)

    def stats(self):
        if not self.is_away:
            return self._shard.stats()
        self.asked.append(Future())
        return self.asked[-1]


@pytest.mark.parametrize("in_order", [False, True])
def test_draws_do_not_wait_for_the_statistics_of_a_shard_that_is_out_of_reach(make_replay, in_order):
    client, shards = make_replay(2, in_order=in_order)
    fill(client, {0: 10, 1: 10})
    wait(client.sample(SampleRequest(0, 30)), 5, "sample")
    away = client._shards[1] = Away(shards[1])
    away.is_away = True
    drawn = [client.sample(SampleRequest(0, 30)) for _ in range(20)]
    if in_order:  # the same calls give the same draws: what is read has been read before the next draw
        assert not drawn[0].done()
    else:
        assert all(set(each.result(timeout=0).keys["shard"].tolist()) == {0} for each in drawn)
        assert len(away.asked) == 1, "one read of the sizes at a time"
    away.is_away = False
    for asked in away.asked:
        shards[1].stats().add_done_callback(lambda done, asked=asked: asked.set_result(done.result()))
    sample = wait(client.sample(SampleRequest(0, 30)), 5, "sample")
    assert set(sample.keys["shard"].tolist()) == {0, 1}
    client.close()


def test_steps_of_a_shard_that_is_gone_are_gone(make_replay):
    client, shards = make_replay(2, MemberSettings(0))
    fill(client, {0: 10, 1: 10})
    keys = wait(client.sample(SampleRequest(0, 40, view="steps")), 5, "sample").keys
    shards[1].close()
    look = SampleRequest(0, len(keys), view="steps", keys=keys)
    assert sorted(wait(client.sample(look), 5, "look").keys.tolist()) == sorted(keys[keys["shard"] == 0].tolist())
    shards[0].close()
    with pytest.raises(PortClosedError, match="no shard that holds these steps answers"):
        wait(client.sample(look), 5, "look")


def test_closing_fails_what_waits(make_replay):
    client, _ = make_replay(2, MemberSettings(0, online_capacity=5))
    waiting = [client.sample(SampleRequest(0, 2, table="online")), client.sample(SampleRequest(0, 2))]
    client.close()
    for future in waiting:
        with pytest.raises(PortClosedError):
            future.result(timeout=5)
    with pytest.raises(PortClosedError):
        client.sample(SampleRequest(0, 2)).result(timeout=5)


def test_the_same_calls_give_the_same_draws_after_a_restore(make_replay):
    drawn = []
    for restore in (False, True):
        client, _ = make_replay(2)
        fill(client, {0: 20, 1: 20})
        state = None
        for i in range(6):
            if i == 3:
                state = client.client_state()
                if restore:
                    client = ShardedReplay(client._shards, seed=99)
                    client.load_client_state(state)
            drawn.append(wait(client.sample(SampleRequest(0, 8)), 5, "sample").keys.tolist())
    assert drawn[:6] == drawn[6:]


def test_one_shard_is_asked_directly(make_replay):
    client, shards = make_replay(1)
    fill(client, {0: 5, 1: 5})
    keys = wait(client.sample(SampleRequest(0, 8)), 5, "sample").keys
    twin, _ = make_replay(1)
    fill(twin, {0: 5, 1: 5})
    assert keys.tolist() == wait(twin._shards[0].sample(SampleRequest(0, 8)), 5, "sample").keys.tolist()
    assert shards[0].stats().result().ledger.sampled == 8


def ask_streams(client, sequence, num=6, timeout_s=5.0):
    request = SampleRequest(0, num, view="streams", stream_set=1, sequence=sequence, timeout_s=timeout_s)
    return client.sample(request).result(timeout=10)


def test_streams_live_on_all_shards_and_go_on(make_replay):
    client, shards = make_replay(3)
    streams = fill(client, {0: 12, 1: 12, 2: 12})
    last = {}
    for sequence in range(12):
        sample = ask_streams(client, sequence)
        assert sorted(sample.streams.tolist()) == list(range(6))
        assert np.bincount(sample.keys["shard"][:, 0]).tolist() == [2, 2, 2]
        for i, stream in enumerate(sample.streams.tolist()):
            numbers = sample.unrolls.fields["observations/observation"][i, :, 0]
            assert last.get(stream, numbers[0]) == numbers[0]
            last[stream] = numbers[-1]
            windows = sample.frame_windows
            for unroll, header in zip(windows.unrolls[i, :-1], sample.origins[i], strict=True):
                assert header["member"] == 0
                blob = windows.frames["image"][unroll]
                assert any(np.array_equal(blob, s.blob(q)) for s in streams.values() for q in range(12))
    for shard in shards:
        shard.check_valid()


def test_a_shard_gets_streams_once_an_episode_has_finished_there(make_replay):
    client, _ = make_replay(2)
    fill(client, {0: 12})
    endless = Stream(SPEC, np.random.default_rng(5), actor=1, mean_length=None)
    for _ in range(3):
        wait(client.insert(endless.next_unroll()), 5, "insert")
    assert set(ask_streams(client, 0).keys["shard"].flat) == {0}
    again = Stream(SPEC, np.random.default_rng(5), actor=1, incarnation=1)
    for _ in range(12):
        wait(client.insert(again.next_unroll()), 5, "insert")
    sample = ask_streams(client, 1)
    assert np.bincount(sample.keys["shard"][:, 0]).tolist() == [3, 3]
    moved = sample.keys["shard"][:, 0] == 1
    assert sample.unrolls.fields["first"][moved, 0].all(), "a stream that moved went on amid an episode"
    assert wait(client.stats(), 5, "stats").streams == {"alive": 6, "restarted": 3}


def test_streams_leave_a_shard_that_fails(make_replay):
    client, shards = make_replay(2)
    fill(client, {0: 12, 1: 12})
    ask_streams(client, 0)
    shards[1].close()
    sample = ask_streams(client, 1)
    assert set(sample.keys["shard"].flat) == {0}
    assert len(sample.streams) == 6


def test_a_repeated_request_is_answered_alike_by_the_shards_that_had_answered(make_replay):
    client, _ = make_replay(2, MemberSettings(0, rate=RateLimit(min_steps=8)))
    fill(client, {0: 12, 1: 12})
    ask_streams(client, 0)
    before = ask_streams(client, 1)
    # The answer of one shard was lost on its way.
    after = ask_streams(client, 1)
    assert before.keys.tolist() == after.keys.tolist()
    following = ask_streams(client, 2)
    numbers = [each.unrolls.fields["observations/observation"][..., 0] for each in (after, following)]
    np.testing.assert_array_equal(numbers[0][:, -1], numbers[1][:, 0])


def test_in_order_means_one_shard_after_the_other(make_replay):
    _, shards = make_replay(3, MemberSettings(0, online_capacity=60))
    client = ShardedReplay(shards, in_order=True)
    fill(client, {0: 4, 1: 2, 2: 5})
    taken = []
    for num, left in ((5, 6), (5, 1)):
        headers = wait(client.sample(SampleRequest(0, num, table="online")), 5, "sample").unrolls.headers
        taken.append(list(zip(headers["actor"].tolist(), headers["sequence"].tolist(), strict=True)))
        assert wait(client.stats(), 5, "stats").members[0].online_queued == left
    assert taken == [[(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)], [(1, 1), (2, 0), (2, 1), (2, 2), (2, 3)]]
    with pytest.raises(PortTimeoutError, match="sample of 2 fresh unrolls for member 0: 1 queued"):
        client.sample(SampleRequest(0, 2, table="online")).result(timeout=5)
    assert len(wait(client.sample(SampleRequest(0, 2, table="online", at_most=True)), 5, "sample").keys) == 1


def test_samples_tell_how_much_was_inserted_after_each_item(make_replay):
    client, shards = make_replay(2)
    streams = [Stream(SPEC, np.random.default_rng(a), actor=a, mean_length=2) for a in (0, 1)]
    for _ in range(10):  # alike many into each shard
        for stream in streams:
            wait(client.insert(stream.next_unroll()), 5, "insert")
    for view in ("unrolls", "steps"):
        sample = wait(client.sample(SampleRequest(0, 200, view=view, timeout_s=5)), 5, "sample")
        expected = (9 - sample.unrolls.headers["sequence"]) * SPEC.unroll_length * 2
        if view == "steps":  # the header of a drawn row is its page's
            pages = [shards[key["shard"]]._store.pages.headers["sequence"][key["page"]] for key in sample.keys]
            expected = (9 - np.array(pages)) * SPEC.unroll_length * 2
        assert sample.ages.tolist() == expected.tolist()
        assert len(set(sample.ages.tolist())) == 10
    shards[0].load_state_dict(shards[0].state_dict())  # ages go on where they were
    sample = wait(shards[0].sample(SampleRequest(0, 200, timeout_s=5)), 5, "sample")
    assert sample.ages.tolist() == ((9 - sample.unrolls.headers["sequence"]) * SPEC.unroll_length).tolist()


class Absent:
    """A shard that fails every call."""

    def __init__(self, error):
        self.error = error

    def sample(self, request):
        return failed(self.error)

    def stats(self):
        return failed(self.error)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ((PortClosedError("gone"), PortClosedError("gone")), PortClosedError),
        ((PortClosedError("gone"), PortAwayError("away")), PortAwayError),
        ((PortAwayError("away"), PortAwayError("away")), PortAwayError),
    ],
)
def test_a_replay_without_a_living_shard_is_away_if_one_is_being_started_anew(errors, expected):
    client = ShardedReplay([Absent(error) for error in errors])
    for call in (client.sample(SampleRequest(0, 4)), client.stats()):
        with pytest.raises(PortClosedError) as caught:
            wait(call, 5, "an answer")
        assert type(caught.value) is expected
    client.close()


def make_with_log(num_shards, unrolls_of_actor, seed=3, capacity_steps=3000):
    """Return a client of shards that split a log from the rest; actors below 0 read the log."""
    config = ReplayConfig(capacity_steps, capacity_bytes=10**6, num_shards=num_shards, log_share=0.5)
    shards = [Shard(SPEC, config, [MemberSettings(0)], shard=k, seed=seed) for k in range(num_shards)]
    client = ShardedReplay(shards, seed=seed)
    fill(client, unrolls_of_actor)
    return client, shards


def fill_later(client, actor, num_unrolls):
    """Insert unrolls of another environment of an actor."""
    stream = Stream(SPEC, np.random.default_rng(9), actor=actor, environment=1)
    for _ in range(num_unrolls):
        wait(client.insert(stream.next_unroll()), 5, "insert")


@pytest.mark.parametrize("view", ["unrolls", "steps"])
def test_items_of_a_log_are_equally_likely_however_unevenly_it_lies_on_the_shards(view):
    client, shards = make_with_log(3, {-1: 30, -2: 8, 0: 5, 1: 40, 2: 6})  # shard 0 has nothing of the log
    counts, stated = Counter(), {}
    for _ in range(60):
        sample = wait(client.sample(SampleRequest(0, 200, view=view, num_from_log=50)), 5, "sample")
        is_log = sample.unrolls.headers["actor"] < 0
        assert is_log.sum() == 50
        items = list(zip(is_log.tolist(), map(tuple, sample.keys.tolist()), strict=True))
        counts.update(items)
        stated.update(zip(items, sample.probabilities.tolist(), strict=True))
    stats = [shard.stats().result() for shard in shards]
    num_log = sum(part.num_stored_log.of(view) for part in stats)
    num_all = sum(part.num_stored.of(view) for part in stats)
    assert (sample.num_stored, sample.num_stored_log) == (num_all, num_log)
    for of_log, num, part in ((True, num_log, 0.25), (False, num_all - num_log, 0.75)):
        found = {item: count for item, count in counts.items() if item[0] == of_log}
        assert len(found) == num
        np.testing.assert_allclose([stated[item] for item in found], part / num)
        expected = 60 * 200 * part / num
        statistic = sum((count - expected) ** 2 / expected for count in found.values())
        assert statistic < num + 3.1 * np.sqrt(2 * num) + 8  # alpha = 0.001, seed fixed
    close(client, shards)


def close(client, shards):
    client.close()
    for shard in shards:
        shard.close()


def test_a_client_takes_all_from_where_there_is_something_and_learns_what_came():
    client, shards = make_with_log(2, {-1: 9, -2: 9})

    def shares():
        sample = wait(client.sample(SampleRequest(0, 40, num_from_log=10)), 5, "sample")
        assert np.isfinite(1 / sample.probabilities).all()
        return (sample.unrolls.headers["actor"] < 0).mean()

    assert shares() == 1.0
    for actor in (0, 1):
        fill_later(client, actor, 5)
    shares()  # learns of them
    assert shares() == 0.25
    close(client, shards)


def test_a_client_learns_from_samples_how_much_of_a_log_is_left():
    client, shards = make_with_log(2, {-1: 20, -2: 20, 0: 18, 1: 18}, capacity_steps=2 * 40 * SPEC.unroll_length)
    request = SampleRequest(0, 60, num_from_log=60)
    for _ in range(4):  # sizes are read before the draws 0, 1, 3 and 7
        before = wait(client.sample(request), 5, "sample")
    fill_later(client, 1, 14)  # shard 1 forgets a part of the log
    in_shard = [shard.stats().result().num_stored_log.unrolls for shard in shards]
    assert before.num_stored_log == 40
    assert in_shard[0] == 20 > in_shard[1] > 5
    old = wait(client.sample(request), 5, "sample")
    assert old.num_stored_log == sum(in_shard)
    np.testing.assert_allclose(old.probabilities, 0.5 / np.array(in_shard)[old.keys["shard"]])
    np.testing.assert_allclose(wait(client.sample(request), 5, "sample").probabilities, 1 / sum(in_shard))
    close(client, shards)


def test_a_restored_client_splits_the_log_as_before():
    client, shards = make_with_log(2, {-1: 9, -2: 4, 0: 7, 1: 9})
    request = SampleRequest(0, 40, num_from_log=10)
    for _ in range(4):  # the next one reads no sizes
        wait(client.sample(request), 5, "sample")
    other = ShardedReplay(shards, seed=77)
    other.load_client_state(client.client_state())
    states = [shard.state_dict() for shard in shards]
    keys = []
    for each in (client, other):
        for shard, state in zip(shards, states, strict=True):
            shard.load_state_dict(state)
        keys.append(wait(each.sample(request), 5, "sample").keys.tolist())
    assert keys[0] == keys[1]
    other.close()
    close(client, shards)
