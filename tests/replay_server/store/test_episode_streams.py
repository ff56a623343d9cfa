"""Episode streams against a naive twin that walks the actors' own logs."""

from collections import Counter

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec, saved

from laser.ports import PortError, PortTimeoutError, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.serving.shard import Shard
from replay_server.store.episode_streams import EpisodeStreams

LENGTH = 4
ONE = (MemberSettings(0),)


def make_shard(*, capacity_unrolls=60, frames=False, members=ONE, seed=3, **config):
    spec = make_spec(LENGTH, frames=frames, core_state=True)
    return Shard(spec, ReplayConfig(capacity_steps=capacity_unrolls * LENGTH, **config), members, seed=seed)


def ask(shard, sequence, num=3, *, stream_set=7, member=0, streams=(), timeout_s=5.0):
    request = SampleRequest(
        member, num, view="streams", stream_set=stream_set, sequence=sequence, streams=streams, timeout_s=timeout_s
    )
    return wait(shard.sample(request), 5, "streams")


def insert(shard, *streams):
    return wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")


def numbers_of(sample):
    """What the observations say: base + row number of the environment's log, [N, T+1]."""
    return sample.unrolls.fields["observations/observation"][..., 0]


class NaiveCursor:
    """Walks an environment's log, told at an episode's first row which one was drawn."""

    def __init__(self):
        self.place = None

    def check(self, numbers, sample, item, logs):
        fields = sample.unrolls.fields
        for t, number in enumerate(numbers.tolist()):
            log, base, member = logs[int(number) // 10_000]
            row = int(number - base)
            episode, step, valid, terminated = log[row]
            if self.place is None:
                assert step == 0, "a stream began amid an episode"
            else:
                assert self.place == (base, row), "a stream skipped or repeated rows"
            assert fields["first"][item, t] == (step == 0)
            if t < LENGTH:
                assert fields["valid"][item, t] == valid
                assert fields["terminated"][item, t] == terminated
                assert fields["rewards"][item, t] == number
                assert sample.origins["member"][item, t] == member
                # After an episode's last row, which holds no transition, another begins.
                self.place = (base, row + 1) if valid else None
            if t == 0:
                header = sample.unrolls.headers[item]
                assert (header["episode"], header["step_in_episode"], header["member"]) == (episode, step, member)
                expected = number - 1 if step else 0.0
                assert fields["last_reward"][item] == expected
                assert fields["last_action"][item] == ((row - 1) % 3 if step else 0)


@pytest.mark.parametrize("mean_length", [1, 6, 30])
@pytest.mark.parametrize("num_streams", [1, 5])
def test_streams_walk_whole_episodes_while_others_come_and_go(mean_length, num_streams):
    rng = np.random.default_rng(mean_length)
    capacity = 200 if mean_length == 30 else 60  # streams are cut where all that is stored is under them
    shard = make_shard(capacity_unrolls=capacity, members=(MemberSettings(0), MemberSettings(1)))
    sources = [Stream(shard.spec, rng, actor=actor, member=actor % 2, mean_length=mean_length) for actor in range(3)]
    logs = {int(source.base) // 10_000: (source.log, source.base, source.member) for source in sources}
    twins = [NaiveCursor() for _ in range(num_streams)]
    while not shard.stats().result().num_stored.streams:
        insert(shard, *sources)
    members = set()
    for sequence in range(120):
        for _ in range(int(rng.integers(3))):
            if rng.random() < 0.1:
                sources[0].sequence += 1  # an unroll is lost: episodes around it cannot be walked
            insert(shard, *sources)
        sample = ask(shard, sequence, num_streams)
        shard.check_valid()
        assert shard._store.streams.num_pins() == {
            slot: episode.num_pins for slot, episode in shard._store.index.episodes.items() if episode.num_pins
        }
        assert "core_state/state" not in sample.unrolls.fields
        assert sample.streams.tolist() == list(range(num_streams))
        for item, numbers in enumerate(numbers_of(sample)):
            twins[item].check(numbers, sample, item, logs)
        members |= set(sample.origins["member"].reshape(-1).tolist())
    assert members == {0, 1}
    stats = shard.stats().result()
    assert stats.streams["alive"] == num_streams
    assert stats.ledger.removed > 50, "nothing was removed meanwhile"
    assert not any(stats.imbalances.values())
    assert stats.streams == {"alive": num_streams}
    shard.close()


def test_the_twin_notices_a_skipped_row():
    shard = make_shard()
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=30)
    for _ in range(20):
        insert(shard, source)
    logs = {0: (source.log, source.base, 0)}
    twin = NaiveCursor()
    sample = ask(shard, 0, 1)
    twin.check(numbers_of(sample)[0], sample, 0, logs)
    cursor = next(iter(shard._store.streams._sets.values())).cursors[0]
    cursor.at += 1
    sample = ask(shard, 1, 1)
    with pytest.raises(AssertionError, match="skipped"):
        twin.check(numbers_of(sample)[0], sample, 0, logs)
    shard.close()


@pytest.mark.parametrize("weight", ["episode", "length"])
def test_episodes_are_drawn_by_their_weight(weight):
    shard = make_shard(capacity_unrolls=100, stream_weight=weight)
    source = Stream(shard.spec, np.random.default_rng(1), mean_length=12)
    for _ in range(90):
        insert(shard, source)
    index = shard._store.index
    walkable = {e.slot: e.num_steps for e in index.episodes.values() if e.streamable}
    assert 1 < len(walkable) < 60
    drawn = Counter()
    streams, rng = shard._store.streams, np.random.default_rng(5)
    num = 6000
    for _ in range(num):
        cursor = streams._draw(rng)
        drawn[cursor.episode.slot] += 1
        index.unpin(cursor.episode)
        share = 1 / len(walkable) if weight == "episode" else walkable[cursor.episode.slot] / sum(walkable.values())
        assert cursor.probability == pytest.approx(share)

    def statistic(shares):
        return sum((drawn[slot] - num * share) ** 2 / (num * share) for slot, share in shares.items())

    uniform = {slot: 1 / len(walkable) for slot in walkable}
    by_length = {slot: steps / sum(walkable.values()) for slot, steps in walkable.items()}
    limit = len(walkable) + 3.1 * np.sqrt(2 * len(walkable)) + 8  # alpha = 0.001, seed fixed
    right, wrong = (uniform, by_length) if weight == "episode" else (by_length, uniform)
    assert statistic(right) < limit < statistic(wrong)
    shard.close()


def test_the_newest_request_may_be_repeated_and_nothing_moves():
    shard = make_shard()
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=30)
    for _ in range(30):
        insert(shard, source)
    first, again, following = ask(shard, 0), ask(shard, 0), ask(shard, 1)
    np.testing.assert_array_equal(numbers_of(first), numbers_of(again))
    np.testing.assert_array_equal(numbers_of(first)[:, -1], numbers_of(following)[:, 0])
    assert shard.stats().result().members[0].sampled_steps == int(
        first.unrolls.fields["valid"].sum() + following.unrolls.fields["valid"].sum()
    )
    with pytest.raises(PortError, match="came after request 1 had been answered"):
        ask(shard, 0)
    shard.close()


def test_missing_requests_restart_the_streams_and_are_counted():
    shard = make_shard()
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=30)
    for _ in range(30):
        insert(shard, source)
    ask(shard, 0)
    sample = ask(shard, 4)
    assert sample.unrolls.fields["first"][:, 0].all(), "a stream went on with a state that its learner does not have"
    assert shard.stats().result().streams == {"alive": 3, "restarted": 3}
    shard.check_valid()
    shard.close()


def test_streams_that_are_no_longer_named_let_go():
    shard = make_shard()
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=30)
    for _ in range(30):
        insert(shard, source)
    before = ask(shard, 0, 3, streams=(4, 9, 2))
    assert before.streams.tolist() == [4, 9, 2]
    after = ask(shard, 1, 2, streams=(2, 5))
    assert numbers_of(after)[0, 0] == numbers_of(before)[2, -1]
    assert after.unrolls.fields["first"][1, 0]
    assert shard._store.streams.num_pins().total() == 2
    with pytest.raises(PortError, match="must name 2 different streams"):
        ask(shard, 2, 2, streams=(3, 3))
    shard.close()


def test_two_members_and_two_sets_do_not_share_streams():
    shard = make_shard(members=(MemberSettings(0), MemberSettings(1)))
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=30)
    for _ in range(30):
        insert(shard, source)
    for sequence in range(3):
        for member, stream_set in ((0, 1), (0, 2), (1, 1)):
            ask(shard, sequence, stream_set=stream_set, member=member)
    assert shard.stats().result().streams == {"alive": 9}
    shard.close()


def test_it_waits_for_an_episode_that_has_finished():
    shard = make_shard()
    endless = Stream(shard.spec, np.random.default_rng(0), mean_length=None)
    for _ in range(5):
        insert(shard, endless)
    with pytest.raises(PortTimeoutError, match="no episode has finished yet"):
        ask(shard, 0, timeout_s=0.05)
    future = shard.sample(SampleRequest(0, 2, view="streams"))
    short = Stream(shard.spec, np.random.default_rng(0), actor=1, mean_length=2)
    while not future.done():
        insert(shard, short)
    assert (numbers_of(future.result()) >= short.base).all()
    shard.close()


def test_an_episode_under_a_stream_stays_until_there_is_no_other_room():
    shard = make_shard(capacity_unrolls=20)
    source = Stream(shard.spec, np.random.default_rng(2), mean_length=10)
    while not shard.stats().result().num_stored.streams:
        insert(shard, source)
    ask(shard, 0, 1)
    (slot,) = shard._store.streams.num_pins()
    episode = shard._store.index.episodes[slot]
    for _ in range(60):
        insert(shard, source)
        shard.check_valid()
        assert shard._store.index.episodes.get(slot) is episode, "an episode went under its stream"
    assert "cut" not in shard.stats().result().streams
    # An open episode that wants all of the room gets it: the stream is ended, counted, and begins anew.
    endless = Stream(shard.spec, np.random.default_rng(2), actor=1, mean_length=None)
    for _ in range(25):
        insert(shard, endless)
        shard.check_valid()
    assert shard.stats().result().streams == {"alive": 1, "cut": 1}
    future = shard.sample(SampleRequest(0, 1, view="streams", stream_set=7, sequence=1))
    assert not future.done()
    for _ in range(10):
        insert(shard, source)
    assert wait(future, 5, "streams").unrolls.fields["first"][0, 0]
    shard.close()


def test_a_replay_full_of_streams_still_takes_inserts():
    shard = make_shard(capacity_unrolls=8)
    source = Stream(shard.spec, np.random.default_rng(2), mean_length=3)
    for _ in range(8):
        insert(shard, source)
    for sequence in range(40):
        sample = ask(shard, sequence, 30)
        assert len(sample.keys) == 30
        insert(shard, source)
        insert(shard, source)
        shard.check_valid()
    assert shard.stats().result().streams["cut"] > 0
    assert shard.stats().result().ledger.inserted == 88
    shard.close()


def test_a_lease_runs_out():
    shard, now = make_shard(), [0.0]
    shard._store.streams = EpisodeStreams(shard._store.index, "episode", 10.0, clock=lambda: now[0])
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=30)
    for _ in range(30):
        insert(shard, source)
    ask(shard, 0, stream_set=1)
    now[0] = 6.0
    ask(shard, 0, stream_set=2)
    now[0] = 12.0
    ask(shard, 1, stream_set=2)
    assert shard.stats().result().streams == {"alive": 3, "expired": 3}
    assert shard._store.streams.num_pins().total() == 3
    sample = ask(shard, 1, stream_set=1)  # the learner was only slow: it begins anew
    assert sample.unrolls.fields["first"][:, 0].all()
    assert shard.stats().result().streams == {"alive": 6, "expired": 3, "restarted": 3}
    shard.check_valid()
    shard.close()


def test_the_rate_limiter_counts_streams():
    rate = RateLimit(1.0, 8, LENGTH, 3 * LENGTH)
    shard = make_shard(members=(MemberSettings(0, rate=rate),))
    source = Stream(shard.spec, np.random.default_rng(0), mean_length=5)
    inserted = [shard.insert(source.next_unroll()) for _ in range(4)]
    assert all(future.done() for future in inserted)
    asked = []
    for sequence in range(20):
        asked.append(shard.sample(SampleRequest(0, 3, view="streams", stream_set=7, sequence=sequence)))
        if not asked[-1].done():
            break
    assert 1 < len(asked) < 20
    shard.close()


def test_streams_go_on_after_a_restore():
    drawn = []
    for restored in (False, True):
        shard = make_shard(frames=True)
        source = Stream(shard.spec, np.random.default_rng(0), mean_length=12)
        for _ in range(30):
            insert(shard, source)
        for sequence in range(3):
            ask(shard, sequence)
        if restored:
            state = saved(shard.state_dict())
            shard.close()
            shard = make_shard(frames=True, seed=99)
            shard.load_state_dict(state)
        for sequence in range(3, 30):
            sample = ask(shard, sequence)
            drawn.append((sample.keys.tobytes(), sample.origins.tobytes(), numbers_of(sample).tobytes()))
            insert(shard, source)
            shard.check_valid()
        shard.close()
    assert drawn[:27] == drawn[27:]


def test_a_full_queue_does_not_keep_the_first_episode_from_finishing():
    for walks_streams in (True, False):
        shard = make_shard(members=(MemberSettings(0, online_capacity=2, walks_streams=walks_streams),))
        source = Stream(shard.spec, np.random.default_rng(0), mean_length=30)
        inserted = [shard.insert(source.next_unroll()).done() for _ in range(20)]
        num_rows = sum(1 for episode, _, _, _ in source.log if episode == 0)
        assert sum(inserted) == (-(-num_rows // LENGTH) if walks_streams else 2)
        shard.close()
