"""A shard as a port: waiting, deadlines, cancelling, closing, threads, and repeatable draws."""

import threading
import time
from concurrent.futures import CancelledError
from concurrent.futures import wait as wait_for_all

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import ColumnSpec, ColumnWrites, PortClosedError, PortError, PortTimeoutError, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.serving.shard import Shard

SPEC = make_spec()
FRAMES = make_spec(frames=True)


@pytest.fixture
def make_shard():
    shards = []

    def make(*members, capacity_steps=400, spec=SPEC, config=None, **kwargs):
        shards.append(Shard(spec, config or ReplayConfig(capacity_steps=capacity_steps), members, **kwargs))
        return shards[-1]

    yield make
    for shard in shards:
        shard.close()


def stream(**kwargs):
    return Stream(SPEC, np.random.default_rng(0), **kwargs)


def test_a_sample_waits_for_the_first_steps_and_then_comes(make_shard):
    shard = make_shard(MemberSettings(0, rate=RateLimit(min_steps=10)))
    source = stream(mean_length=None)
    future = shard.sample(SampleRequest(0, 5))
    for _ in range(2):
        wait(shard.insert(source.next_unroll()), 5, "insert")
        assert not future.done()
    wait(shard.insert(source.next_unroll()), 5, "insert")
    assert len(wait(future, 5, "sample").unrolls) == 5


def test_an_insert_waits_while_the_online_queue_is_full(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=2))
    source = stream()
    futures = [shard.insert(source.next_unroll()) for _ in range(5)]
    assert [future.done() for future in futures] == [True, True, False, False, False]
    sample = wait(shard.sample(SampleRequest(0, 2, table="online")), 5, "sample")
    assert sample.unrolls.headers["sequence"].tolist() == [0, 1]
    assert [future.done() for future in futures] == [True, True, True, True, False]
    future = shard.sample(SampleRequest(0, 2, table="online"))
    assert wait(future, 5, "sample").unrolls.headers["sequence"].tolist() == [2, 3]
    rest = shard.sample(SampleRequest(0, 2, table="online", at_most=True))
    assert wait(rest, 5, "sample").unrolls.headers["sequence"].tolist() == [4]


def test_the_experience_of_a_log_waits_for_nobody_and_is_not_fresh(make_shard):
    rate = RateLimit(2.0, min_steps=10, max_insert_steps=4, max_sample_steps=8)
    shard = make_shard(MemberSettings(0, online_capacity=1, rate=rate))
    log = stream(actor=-1, mean_length=None)
    inserts = [shard.insert(log.next_unroll()) for _ in range(20)]
    assert all(insert.done() and insert.result().num_inserted == 1 for insert in inserts)
    member = shard.stats().result().members[0]
    assert (member.online_inserted, member.inserted_steps) == (0, 80)
    # The draws that the log allows are those after any warm-up.
    assert member.limiter_difference == 10 * 2.0
    assert len(wait(shard.sample(SampleRequest(0, 2)), 5, "sample").unrolls) == 2
    own = stream(actor=0, mean_length=None)
    wait(shard.insert(own.next_unroll()), 5, "insert")
    assert shard.stats().result().members[0].online_inserted == 1
    assert wait(shard.sample(SampleRequest(0, 1, table="online")), 5, "sample").unrolls.headers["actor"] == [0]
    assert not shard.insert(own.next_unroll()).result().num_duplicates
    shard.check_valid()


def test_a_batch_and_a_message_do_not_wait_for_each_other(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=5))
    sources = [stream(environment=e) for e in range(3)]
    inserts = [shard.insert(join([source.next_unroll() for source in sources])) for _ in range(3)]
    assert [future.done() for future in inserts] == [True, False, False]
    sample = wait(shard.sample(SampleRequest(0, 5, table="online")), 5, "sample")
    assert len(sample.unrolls) == 5
    # The queue took no more than it had to: one message beyond its room.
    assert shard.stats().result().members[0].online_queued in (1, 4)
    shard.check_valid()


def test_a_message_without_room_fails_if_the_learner_waits_for_it_too(make_shard):
    """Frames fill their room before the warm-up is over: the learner would take none of them, and wait for more."""
    config = ReplayConfig(capacity_steps=400, capacity_bytes=20_000)
    shard = make_shard(MemberSettings(0, online_capacity=2, rate=RateLimit(min_steps=400)), spec=FRAMES, config=config)
    source = Stream(FRAMES, np.random.default_rng(0), mean_length=None)
    inserts = [shard.insert(source.next_unroll())]
    while inserts[-1].done():
        inserts.append(shard.insert(source.next_unroll()))
    assert len(inserts) > 3, "nothing was queued"
    asked = shard.sample(SampleRequest(0, 1))  # from now on the learner is there, and waits for the warm-up
    with pytest.raises(
        PortError, match=r"no room: \d+ unrolls fill a shard's [\d,]+ bytes of frames .*raise replay\.cap"
    ):
        wait(inserts[-1], 5, "insert")
    asked.cancel()


def test_one_member_that_stands_still_does_not_hold_up_another(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=1), MemberSettings(1, online_capacity=1))
    idle, busy = stream(actor=0, member=0), stream(actor=1, member=1)
    stuck = [shard.insert(idle.next_unroll()) for _ in range(3)]
    for _ in range(20):
        wait(shard.insert(busy.next_unroll()), 5, "insert")
        taken = wait(shard.sample(SampleRequest(1, 1, table="online")), 5, "sample")
        assert taken.unrolls.headers["member"].tolist() == [1]
    assert [future.done() for future in stuck] == [True, False, False]


def test_an_unroll_counts_as_all_its_rows_when_the_limiter_is_asked(make_shard):
    shard = make_shard(MemberSettings(0, rate=RateLimit(1.0, 4, 4, 20, error_buffer=20.0)))
    source = stream(mean_length=None)
    for _ in range(4):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    # 16 steps are in, so at most 32 may be drawn: one draw of 5 unrolls, 20 rows, fits and a second does not.
    wait(shard.sample(SampleRequest(0, 5)), 5, "sample")
    second = shard.sample(SampleRequest(0, 5))
    assert not second.done()
    second.cancel()


def test_the_samples_per_insert_are_kept_in_both_directions(make_shard):
    rate = RateLimit(2.0, min_steps=4, max_insert_steps=4, max_sample_steps=8)
    shard = make_shard(MemberSettings(0, rate=rate))
    source = stream(mean_length=None)
    inserts = [shard.insert(source.next_unroll()) for _ in range(20)]
    assert 0 < sum(future.done() for future in inserts) < 20
    samples = [shard.sample(SampleRequest(0, 2)) for _ in range(60)]
    assert all(future.done() for future in inserts)
    assert 0 < sum(future.done() for future in samples) < 60
    stats = shard.stats().result().members[0]
    assert rate.min_difference <= stats.limiter_difference <= rate.max_difference


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (
            lambda shard: shard.sample(SampleRequest(0, 128, timeout_s=0.05)),
            "sample of 128 unrolls: 0 of 12 steps stored",
        ),
        (
            lambda shard: shard.sample(SampleRequest(0, 2, table="online", timeout_s=0.05)),
            "sample of 2 fresh unrolls for member 0: 0 queued",
        ),
        (
            # The first unrolls are the warm-up, which the queue takes whatever its bound is.
            lambda shard: next(f for f in map(shard.insert, unrolls_of(stream(), 9)) if not f.done()),
            r"insert of 1 unrolls: online queue of member 0 is full .\d+ of 2 unrolls.: the learner does not take",
        ),
    ],
)
def test_deadlines_pass_when_nobody_calls_and_say_what_was_lacking(make_shard, prepare, message):
    shard = make_shard(MemberSettings(0, online_capacity=2, rate=RateLimit(min_steps=12)), insert_timeout_s=0.05)
    future = prepare(shard)
    begin = time.monotonic()
    with pytest.raises(PortTimeoutError, match=message):
        future.result(timeout=5)
    assert time.monotonic() - begin < 2
    shard.check_valid()


def test_a_later_call_with_an_earlier_deadline_fails_first(make_shard):
    shard = make_shard(MemberSettings(0))
    patient, hasty = (shard.sample(SampleRequest(0, 1, timeout_s=s)) for s in (60, 0.05))
    time.sleep(0.02)  # the thread sleeps until the first deadline
    hastier = shard.sample(SampleRequest(0, 1, view="steps", timeout_s=0.01))
    for future in (hasty, hastier):
        with pytest.raises(PortTimeoutError):
            future.result(timeout=5)
    assert not patient.done()


def unrolls_of(source, num):
    return [source.next_unroll() for _ in range(num)]


def test_an_insert_that_timed_out_can_be_repeated(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=1), insert_timeout_s=0.05)
    first, second = unrolls_of(stream(), 2)
    wait(shard.insert(first), 5, "insert")
    with pytest.raises(PortTimeoutError):
        shard.insert(second).result(timeout=5)
    wait(shard.sample(SampleRequest(0, 1, table="online")), 5, "sample")
    assert wait(shard.insert(second), 5, "insert").num_inserted == 1
    shard.check_valid()
    assert shard.stats().result().ledger.failed == {"timed_out": 1}


def test_calls_of_one_member_and_table_are_served_in_order(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=8), MemberSettings(1, online_capacity=8))
    large, small = (shard.sample(SampleRequest(0, num, table="online")) for num in (3, 1))
    other = shard.sample(SampleRequest(1, 1, table="online"))
    source, foreign = stream(), stream(actor=1, member=1)
    for _ in range(2):
        wait(shard.insert(source.next_unroll()), 5, "insert")
        wait(shard.insert(foreign.next_unroll()), 5, "insert")
    assert other.done()
    assert not small.done(), "a small batch overtook a large one, which might then never be served"
    for _ in range(2):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    assert wait(large, 5, "sample").unrolls.headers["sequence"].tolist() == [0, 1, 2]
    assert wait(small, 5, "sample").unrolls.headers["sequence"].tolist() == [3]


def test_a_cancelled_call_takes_nothing(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=2))
    future = shard.sample(SampleRequest(0, 1, table="online"))
    assert future.cancel()
    source = stream()
    inserts = [shard.insert(source.next_unroll()) for _ in range(3)]
    assert inserts[2].cancel()
    taken = wait(shard.sample(SampleRequest(0, 1, table="online")), 5, "sample")
    assert taken.unrolls.headers["sequence"].tolist() == [0]
    with pytest.raises(CancelledError):
        inserts[2].result(timeout=1)
    shard.check_valid()
    ledger = shard.stats().result().ledger
    assert (ledger.inserted, ledger.failed) == (2, {"cancelled": 1})


def test_messages_that_never_fit_fail_at_once(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=2), MemberSettings(1), capacity_steps=16)
    for member, message in (
        (0, "3 unrolls in one message exceed the online queue"),
        (1, "exceed a shard's capacity of 4"),
    ):
        sources = [stream(actor=member, member=member, environment=e) for e in range(3 + 5 * member)]
        with pytest.raises(PortError, match=message):
            wait(shard.insert(join([source.next_unroll() for source in sources])), 5, "insert")
    shard.check_valid()


def test_min_steps_beyond_the_capacity_are_refused(make_shard):
    with pytest.raises(ValueError, match="min_steps must be at most capacity_steps"):
        make_shard(MemberSettings(0, rate=RateLimit(min_steps=1000)))


def test_closing_fails_what_waits_and_what_comes_after(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=1))
    source = stream()
    shard.insert(source.next_unroll())
    waiting = [shard.insert(source.next_unroll()), shard.sample(SampleRequest(0, 1))]
    assert not waiting[0].done()
    assert waiting[1].done()
    thread = shard._watcher
    assert thread is not None
    assert thread.is_alive()
    shard.close()
    shard.close()
    assert not thread.is_alive()
    with pytest.raises(PortClosedError, match="closed during insert of 1 unrolls"):
        waiting[0].result(timeout=1)
    for call in (
        lambda: shard.insert(source.next_unroll()),
        lambda: shard.sample(SampleRequest(0, 1)),
        shard.stats,
        lambda: shard.write(ColumnWrites(0, np.zeros(0), {})),
    ):
        with pytest.raises(PortClosedError):
            call().result(timeout=1)
    assert shard._stats().members[0].online_dropped == {"closed": 1}


def test_callbacks_may_call_the_shard(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=1))
    source, sequences = stream(), []

    def take_next(future):
        sequences.append(int(future.result().unrolls.headers["sequence"][0]))
        if len(sequences) < 5:
            shard.sample(SampleRequest(0, 1, table="online")).add_done_callback(take_next)

    shard.sample(SampleRequest(0, 1, table="online")).add_done_callback(take_next)
    for _ in range(5):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    assert sequences == [0, 1, 2, 3, 4]


def test_a_newer_incarnation_replaces_the_older_one(make_shard):
    shard = make_shard(MemberSettings(0))
    old, new = stream(mean_length=None), stream(mean_length=None, incarnation=1)
    for unroll in unrolls_of(old, 2) + unrolls_of(new, 2):
        wait(shard.insert(unroll), 5, "insert")
    assert wait(shard.insert(old.next_unroll()), 5, "insert").rejected == {"old_incarnation": 1}
    shard.check_valid()
    index = shard._store.index
    assert (len(index.open), len(index.finished)) == (1, 1)


def test_the_same_calls_give_the_same_draws_and_other_seeds_do_not(make_shard):
    drawn = []
    for seed in (1, 1, 2):
        shard, source = make_shard(MemberSettings(0), seed=seed), stream()
        for unroll in unrolls_of(source, 30):
            wait(shard.insert(unroll), 5, "insert")
        requests = [SampleRequest(0, 16), SampleRequest(0, 16, view="steps")]
        keys = [wait(shard.sample(request), 5, "sample").keys for request in requests]
        drawn.append(np.concatenate(keys).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_is_handed_out_belongs_to_the_receiver(make_shard):
    shard, source = make_shard(MemberSettings(0), capacity_steps=8), stream()
    wait(shard.insert(source.next_unroll()), 5, "insert")
    sample = wait(shard.sample(SampleRequest(0, 4)), 5, "sample")
    before = sample.unrolls.fields["observations/observation"].copy()
    for unroll in unrolls_of(source, 10):
        wait(shard.insert(unroll), 5, "insert")
    np.testing.assert_array_equal(sample.unrolls.fields["observations/observation"], before)


def test_threads_may_hammer_it(make_shard):
    num_messages, columns = 120, (ColumnSpec("priority"),)
    shard = make_shard(*(MemberSettings(m, online_capacity=4, columns=columns) for m in range(2)), capacity_steps=200)
    errors, taken = [], {0: [], 1: []}

    def act(actor):
        source = Stream(SPEC, np.random.default_rng(actor), actor=actor, member=actor % 2)
        for _ in range(num_messages):
            unroll = source.next_unroll()
            for _ in range(2):  # every call is repeated, as after a lost reply
                wait(shard.insert(unroll), 20, "insert")

    def learn(member):
        while len(taken[member]) < 2 * num_messages:
            online = wait(shard.sample(SampleRequest(member, 4, table="online", at_most=True)), 20, "online")
            headers = online.unrolls.headers
            taken[member] += list(zip(headers["actor"].tolist(), headers["sequence"].tolist(), strict=True))
            sample = wait(shard.sample(SampleRequest(member, 8)), 20, "replay")
            writes = ColumnWrites(member, sample.keys, {"priority": np.ones((8, 4), np.float32)})
            wait(shard.write(writes), 20, "write")
            cancelled = shard.sample(SampleRequest(member, 4, table="online"))
            if not cancelled.cancel():
                headers = cancelled.result(timeout=20).unrolls.headers
                taken[member] += list(zip(headers["actor"].tolist(), headers["sequence"].tolist(), strict=True))

    def guarded(work, argument):
        try:
            work(argument)
        except Exception as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    jobs = [(act, actor) for actor in range(4)] + [(learn, member) for member in range(2)]
    threads = [threading.Thread(target=guarded, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []
    for member in range(2):
        everything = [(actor, s) for actor in (member, member + 2) for s in range(num_messages)]
        assert sorted(taken[member]) == everything
    shard.check_valid()
    assert not wait_for_all([shard.stats()], timeout=1).not_done


def test_the_queue_takes_the_whole_warm_up_and_is_bounded_after_it(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=2, rate=RateLimit(min_steps=12)), insert_timeout_s=5.0)
    stored = 0
    for unroll in unrolls_of(stream(), 9):
        accepted = shard.insert(unroll).done()
        assert accepted == (stored < 12)
        stored += int(unroll.fields["valid"].sum()) if accepted else 0
    assert stored >= 12, "the bound was never reached"
    shard.sample(SampleRequest(0, 2, table="online")).result(timeout=1)
    shard.check_valid()


def test_inserts_of_a_member_that_has_ended_wait_no_more(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=1), MemberSettings(1, online_capacity=1))
    mine, other = stream(), stream(actor=1, member=1)
    waiting = [shard.insert(source.next_unroll()) for source in (mine, mine, other, other)]
    assert [future.done() for future in waiting] == [True, False, True, False]
    assert shard.stats().result().waiting_unrolls == 2
    shard.end_inserts(0)
    assert [future.done() for future in waiting] == [True, True, True, False], "another member's insert still waits"
    with pytest.raises(PortError, match="the training of member 0 has ended"):
        waiting[1].result()
    with pytest.raises(PortError, match="has ended"):
        shard.insert(mine.next_unroll()).result(timeout=0)
    shard.check_valid()
    stats = shard.stats().result()
    assert (stats.ledger.failed, stats.waiting_unrolls) == ({"stopped": 2}, 1)
    assert sum(num for (_, actor, _), num in stats.arrived.items() if actor == 0) == 3, "they have arrived"


def test_a_saved_shard_counts_what_waited_as_not_saved(make_shard):
    shard, restored = (make_shard(MemberSettings(0, online_capacity=1)) for _ in range(2))
    source = stream()
    for _ in range(2):
        shard.insert(source.next_unroll())
    restored.load_state_dict(shard.state_dict())
    restored.check_valid()
    assert restored.stats().result().ledger.failed == {"not_saved": 1}
    shard.check_valid()
    assert not shard.stats().result().ledger.failed, "it still waits in the shard that was saved"


@pytest.mark.parametrize("num_shards", [1, 2])
def test_accounts_continue_without_the_replay(make_shard, num_shards):
    before = make_shard(MemberSettings(0, online_capacity=2))
    source = stream()
    for _ in range(3):
        before.insert(source.next_unroll())
    saved = before.accounts()
    after = [make_shard(MemberSettings(0, online_capacity=2)) for _ in range(num_shards)]
    for number, shard in enumerate(after):
        shard.load_accounts([saved["streams"]], [saved["ledger"]][number:])
    # The third never went in: its number is skipped, and the fourth goes to any of the shards.
    wait(after[-1].insert(source.next_unroll()), 5, "insert")
    total = [shard.stats().result().ledger for shard in after]
    for shard in after:
        shard.check_valid()
    assert [sum(getattr(each, name) for each in total) for name in ("received", "inserted", "not_saved")] == [4, 3, 2]
    assert sum(each.lost for each in total) == 1
    assert total[0].failed == {"not_saved": 1}


def test_accounts_newer_than_the_content_continue_with_it(make_shard):
    """Content of an older checkpoint, accounts of a newer one: what went in between was not saved."""
    before, after = (make_shard(MemberSettings(0, online_capacity=9)) for _ in range(2))
    source = stream()
    before.insert(source.next_unroll())
    content = before.state_dict()
    for _ in range(2):
        before.insert(source.next_unroll())
    accounts = before.accounts()
    after.load_state_dict(content)
    after.load_accounts([accounts["streams"]], [accounts["ledger"]])
    after.check_valid()
    wait(after.insert(source.next_unroll()), 5, "insert")
    after.check_valid()
    stats = after.stats().result()
    assert (stats.ledger.received, stats.ledger.not_saved, stats.ledger.lost, stats.num_unrolls) == (4, 2, 0, 2)


def test_samples_of_a_learner_that_died_take_no_unrolls(make_shard):
    shard = make_shard(MemberSettings(0, online_capacity=4), MemberSettings(1, online_capacity=4))
    dead, other = (shard.sample(SampleRequest(member, 2, table="online")) for member in (0, 1))
    shard.end_samples(0)
    with pytest.raises(PortClosedError, match="the learner of member 0 has ended"):
        dead.result(timeout=0)
    assert not other.done()
    source = stream()
    for _ in range(2):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    sample = wait(shard.sample(SampleRequest(0, 2, table="online")), 5, "sample")
    assert sample.unrolls.headers["sequence"].tolist() == [0, 1]


LIMITED = MemberSettings(
    0,
    columns=(ColumnSpec("priority"),),
    rate=RateLimit(1.0, min_steps=40, max_insert_steps=16, max_sample_steps=400, error_buffer=1000),
)


def lived(make_shard, num_unrolls=20):
    shard, source = make_shard(LIMITED), stream()
    for _ in range(num_unrolls):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    return shard, source


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_shard_takes_the_place_of_one_that_died(make_shard, is_saved):
    dead, source = lived(make_shard)
    saved = dead.state_dict() if is_saved else None
    for _ in range(5):
        wait(dead.insert(source.next_unroll()), 5, "insert")
    seen = dead.stats().result()
    shard = make_shard(LIMITED)
    for _ in range(2):  # a repeated call changes nothing
        shard.begin_again(saved, seen, 1)
    shard.check_valid()
    stats = shard.stats().result()
    assert stats.life == 1
    assert stats.ledger.inserted == stats.ledger.received == seen.ledger.inserted
    assert stats.ledger.died == seen.ledger.inserted - seen.ledger.removed - stats.num_unrolls - (
        stats.ledger.removed - seen.ledger.removed
    )
    assert (stats.num_unrolls > 0) is is_saved
    if is_saved:
        assert len(wait(shard.sample(SampleRequest(0, 30)), 5, "sample").unrolls) == 30
    # Actors that come here begin new streams.
    fresh = stream(incarnation=7)
    wait(shard.insert(fresh.next_unroll()), 5, "insert")
    assert wait(shard.sample(SampleRequest(0, 4)), 5, "sample").num_stored == stats.num_unrolls + 1
    shard.check_valid()
    assert shard.stats().result().ledger.lost == 0


def test_no_draw_waits_for_actors_that_moved_away_from_a_dead_shard(make_shard):
    dead, _ = lived(make_shard)
    saved = dead.state_dict()
    shard = make_shard(LIMITED)
    shard.begin_again(saved, dead.stats().result(), 1)
    for _ in range(10):  # far more than samples_per_insert allows
        wait(shard.sample(SampleRequest(0, 30, timeout_s=1.0)), 5, "sample")


@pytest.mark.parametrize("is_saved", [False, True])
def test_keys_of_a_dead_shard_reach_no_row_of_its_successor_that_came_later(make_shard, is_saved):
    dead, source = lived(make_shard)
    saved = dead.state_dict() if is_saved else None
    for _ in range(60):  # pages are used again, some of them twice
        wait(dead.insert(source.next_unroll()), 5, "insert")
    keys = dead._answers.answer(SampleRequest(0, 200)).keys
    shard, fresh = make_shard(LIMITED), stream(incarnation=7)
    shard.begin_again(saved, dead.stats().result(), 1)
    for _ in range(100):
        wait(shard.insert(fresh.next_unroll()), 5, "insert")
    receipt = wait(shard.write(ColumnWrites(0, keys, {"priority": np.ones((200, 1), np.float32)})), 5, "write")
    assert receipt.num_written == 0
