"""What members of one shared replay may rely on, with one shard and with two behind a client."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from laser.ports import ColumnSpec, ColumnWrites, PortError, SampleRequest, wait
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.serving.shard import Shard

sys.path.append(str(Path(__file__).parents[1] / "replay_server"))
from replay_helpers import Stream, make_spec

SPEC = make_spec(frames=True)
LENGTH = SPEC.unroll_length


class Shared:
    """A replay of some shards and the streams that members' actors insert: actor 2 m + k of member m, on shard k."""

    def __init__(self, num_shards, members, **config):
        config = ReplayConfig(capacity_steps=800, capacity_bytes=10**6, num_shards=num_shards, **config)
        self.shards = [Shard(SPEC, config, members, shard=k, seed=1, insert_timeout_s=20.0) for k in range(num_shards)]
        self.replay = ShardedReplay(self.shards, seed=1)
        self.sources = {}
        self.mean_length = 6

    def insert(self, member, num=1):
        """Insert from both actors of a member; return the futures."""
        made = []
        for _ in range(num):
            for actor in (2 * member, 2 * member + 1):
                if actor not in self.sources:
                    rng = np.random.default_rng(actor)
                    self.sources[actor] = Stream(SPEC, rng, actor=actor, member=member, mean_length=self.mean_length)
                made.append(self.replay.insert(self.sources[actor].next_unroll()))
        return made

    def fill(self, member, num):
        for future in self.insert(member, num):
            assert wait(future, 5, "insert").num_inserted == 1

    def fresh(self, member, num):
        return wait(self.replay.sample(SampleRequest(member, num, table="online", timeout_s=5.0)), 6, "fresh")

    def replayed(self, member, num=200, **request):
        return wait(self.replay.sample(SampleRequest(member, num, timeout_s=5.0, **request)), 6, "replayed")

    def member_stats(self, member):
        return wait(self.replay.stats(), 5, "stats").members[member]

    def close(self):
        for shard in self.shards:
            shard.check_valid()
        self.replay.close()
        for shard in self.shards:
            shard.close()
            shard.check_valid()


@pytest.fixture(params=[1, 2], ids=["one shard", "two shards"])
def make_shared(request):
    made = []

    def make(*members, **config):
        made.append(Shared(request.param, members, **config))
        return made[-1]

    yield make
    for shared in made:
        shared.close()


def test_fresh_experience_is_a_member_s_own_and_replayed_is_everybody_s(make_shared):
    shared = make_shared(MemberSettings(0, online_capacity=40), MemberSettings(1, online_capacity=40))
    for _ in range(8):
        shared.fill(0, 1)
        shared.fill(1, 1)
    ids = set()
    for member in (0, 1):
        for _ in range(2):
            headers = shared.fresh(member, 8).unrolls.headers
            assert set(headers["member"].tolist()) == {member}
            ids |= set(zip(headers["actor"].tolist(), headers["sequence"].tolist(), strict=True))
    assert len(ids) == 32, "an unroll was handed out twice"
    for member in (0, 1):
        shares = np.bincount(shared.replayed(member).unrolls.headers["member"]) / 200
        assert (np.abs(shares - 0.5) < 5 * 0.5 / np.sqrt(200)).all()  # 5 standard errors
        streams = shared.replayed(member, 40, view="streams", stream_set=member)
        assert set(streams.origins["member"].flat) == {0, 1}


def test_columns_belong_to_a_member(make_shared):
    column = (ColumnSpec("priority", 1.0),)
    shared = make_shared(MemberSettings(0, columns=column), MemberSettings(1, columns=column), MemberSettings(2))
    shared.fill(0, 4)
    keys = shared.replayed(0).keys
    wait(shared.replay.write(ColumnWrites(0, keys, {"priority": np.zeros((200, LENGTH), np.float32)})), 5, "write")
    assert (shared.replayed(0).columns["priority"] == 0).all()
    assert (shared.replayed(1).columns["priority"] == 1).all()
    assert shared.replayed(2).columns == {}
    with pytest.raises(PortError, match="was not declared"):
        shared.replay.write(ColumnWrites(2, keys, {"priority": np.zeros((200, LENGTH), np.float32)})).result(timeout=5)


def test_each_limiter_counts_its_own_member(make_shared):
    rate = RateLimit(1.0, 4 * LENGTH, LENGTH, 4 * LENGTH, error_buffer=8.0 * LENGTH)
    shared = make_shared(MemberSettings(0, rate=rate), MemberSettings(1))
    shared.fill(1, 30)  # its inserts do not let member 0 draw more, nor its draws
    shared.replayed(1, 400)
    shared.fill(0, 4)
    drawn = [shared.replay.sample(SampleRequest(0, 4, timeout_s=5.0)) for _ in range(20)]
    assert 0 < sum(future.done() for future in drawn) < 20
    shared.replayed(1, 400)
    for future in drawn:
        future.cancel()


def test_a_member_that_stands_still_does_not_hold_up_others(make_shared):
    shared = make_shared(MemberSettings(0, online_capacity=4), MemberSettings(1, online_capacity=4))
    stuck = shared.insert(0, 6)
    for _ in range(20):
        shared.fill(1, 1)
        assert set(shared.fresh(1, 2).unrolls.headers["member"].tolist()) == {1}
        shared.replayed(1, 4)
    assert not all(future.done() for future in stuck)


def test_the_actors_of_a_learner_that_is_gone_go_on_feeding_the_others(make_shared):
    rate = RateLimit(1.0, LENGTH, LENGTH, 4 * LENGTH)
    shared = make_shared(
        MemberSettings(0, online_capacity=4), MemberSettings(1), MemberSettings(2, rate=rate), lease_s=1.0
    )
    began = time.monotonic()
    waiting = [*shared.insert(0, 8), *shared.insert(2, 12)]
    assert not all(future.done() for future in waiting)
    for future in waiting:
        wait(future, 5, "an insert that nobody reads")
    assert time.monotonic() - began > 0.9
    stats = shared.member_stats(0)
    assert stats.online_dropped["no_reader"] == 16 - 4 == stats.online_inserted - stats.online_queued
    # Those that share the replay have all of it.
    actors = shared.replayed(1).unrolls.headers["actor"]
    assert set(actors.tolist()) == {0, 1, 4, 5}

    # The learners come back: fresh experience is the newest, and actors wait for them again.
    headers = shared.fresh(0, 4).unrolls.headers
    assert set(headers["sequence"].tolist()) <= {6, 7}
    shared.fill(0, 2)
    assert not all(future.done() for future in shared.insert(0, 1))
    before = shared.member_stats(2)
    assert before.limiter_difference <= len(shared.shards) * rate.max_difference, "inserts nobody drew for are owed"
    shared.replayed(2, 1)
    assert not all(future.done() for future in shared.insert(2, 12))


def test_a_learner_that_waits_is_not_gone(make_shared):
    shared = make_shared(MemberSettings(0, online_capacity=2), lease_s=0.2)
    shared.mean_length = None  # no episode finishes
    shared.fill(0, 1)
    patient = shared.replay.sample(SampleRequest(0, 4, timeout_s=10.0, view="streams"))
    blocked = shared.insert(0, 1)
    time.sleep(0.5)
    # With two shards the streams wait on both.
    assert not any(future.done() for future in [patient, *blocked])
    patient.cancel()


def test_a_member_may_join_later_and_come_back(make_shared):
    shared = make_shared(MemberSettings(0, online_capacity=8))
    shared.fill(0, 4)
    with pytest.raises(PortError, match="member must be one of"):
        shared.replay.sample(SampleRequest(3, 1)).result(timeout=5)
    assert wait(shared.insert(3)[0], 5, "insert").rejected == {"unknown_member": 1}
    late = MemberSettings(3, online_capacity=8, columns=(ColumnSpec("priority", 2.0),))
    for shard in shared.shards:
        shard.add_member(late)
        shard.add_member(late)
    sample = shared.replayed(3)
    assert set(sample.unrolls.headers["member"].tolist()) == {0}
    assert (sample.columns["priority"] == 2.0).all()
    shared.fill(3, 4)
    assert set(shared.fresh(3, 8).unrolls.headers["member"].tolist()) == {3}
    with pytest.raises(ValueError, match="member 3 is known with other settings"):
        shared.shards[0].add_member(MemberSettings(3))


def test_the_ledgers_balance_when_members_come_and_go(make_shared):
    shared = make_shared(MemberSettings(0, online_capacity=6), MemberSettings(1, online_capacity=6), lease_s=0.2)
    rng = np.random.default_rng(0)
    num = 0
    for turn in range(30):
        shared.fill(1, 1)
        num += 2
        shared.fresh(1, 2)
        if turn % 10 < 5:
            shared.fill(0, 1)
            num += 2
            shared.fresh(0, int(rng.integers(1, 3)))
        shared.replayed(turn % 2, 6, view="streams", stream_set=1, sequence=turn // 2)
    stats = wait(shared.replay.stats(), 5, "stats")
    ledger = stats.ledger
    assert ledger.received == ledger.inserted + ledger.rejected.get("unknown_member", 0) == num
    assert ledger.inserted == stats.num_unrolls + ledger.removed
    for number, member in stats.members.items():
        out = member.online_handed_out + member.online_queued + sum(member.online_dropped.values())
        assert member.online_inserted == out, number
    assert not any(stats.imbalances.values())
