"""What one member has in a replay for itself: its queue, its limits, and how often it drew what."""

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec, saved

from laser.ports import ColumnSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.samplers import Draw
from replay_server.store.members import Member
from replay_server.store.store import Store

LENGTH = 4
COLUMNS = (ColumnSpec("priority", 1.0),)


def make_member(capacity=0, columns=COLUMNS, sampler="per", **rate):
    """Return a member of a store that holds eight unrolls, their pages, and the store."""
    store = Store(
        make_spec(LENGTH),
        ReplayConfig(capacity_steps=8 * LENGTH, sampler=sampler),
        [MemberSettings(0, capacity, RateLimit(**rate), columns)],
    )
    stream = Stream(store.spec, np.random.default_rng(0))
    unrolls = join([stream.next_unroll() for _ in range(8)])
    store.insert(unrolls, np.arange(8), [(1, 0, 0, 0)] * 8, range(8))
    return store.members[0], np.sort(store.index.live_pages.items), store


def queued(member):
    return list(member.queue)


def test_unrolls_are_handed_out_once_first_in_first_out():
    member, pages, _ = make_member(capacity=8)
    assert queued(member) == pages.tolist()
    assert member.dequeue(3).tolist() == pages[:3].tolist()
    assert member.dequeue(5).tolist() == pages[3:].tolist()
    assert member.imbalance == 0
    assert (member.stats().online_inserted, member.stats().online_handed_out) == (8, 8)


def test_the_oldest_are_dropped_and_counted_by_reason():
    member, pages, _ = make_member(capacity=8)
    assert member.drop_queue("no_reader", num_left=6).tolist() == pages[:2].tolist()
    assert member.drop_queue("no_reader", num_left=7).tolist() == []
    assert member.drop_queue("closed").tolist() == pages[2:].tolist()
    assert member.drop_queue("closed").tolist() == []
    assert member.stats().online_dropped == {"no_reader": 2, "closed": 6}
    assert member.imbalance == 0


def test_an_entry_that_vanishes_is_noticed():
    member, _, store = make_member(capacity=8)
    store.check_valid()
    member.queue.pop()
    assert member.imbalance == 1
    with pytest.raises(AssertionError):
        store.check_valid()


@pytest.mark.parametrize(
    ("capacity", "num_unrolls", "num_wanted", "warming_up", "waits"),
    [
        (10, 2, 0, False, False),
        (10, 3, 0, False, True),
        (10, 3, 8, False, True),  # eight are queued already, and that is all the batch wants
        (10, 3, 9, False, False),  # a batch and a message would wait for each other
        (10, 3, 0, True, False),
        (8, 0, 0, False, False),
    ],
)
def test_when_a_message_waits_for_room_in_the_queue(capacity, num_unrolls, num_wanted, warming_up, waits):
    member, _, _ = make_member(capacity=capacity)
    lacks = member.queue_lacks(num_unrolls, num_wanted, warming_up)
    assert (lacks is not None) == waits
    if waits:
        assert "member 0 is full (8 of 10 unrolls)" in lacks


def test_without_a_queue_nothing_waits_for_room():
    member, _, _ = make_member()
    assert queued(member) == []
    assert member.queue_lacks(1000, 0, False) is None
    assert member.never_takes(1000, 10**9) is None


def test_a_message_too_large_is_refused_at_once():
    member, _, _ = make_member(capacity=8, samples_per_insert=2.0, max_insert_steps=12)
    assert member.never_takes(8, 12) is None
    assert "9 unrolls in one message exceed the online queue's capacity of 8" in member.never_takes(9, 12)
    assert "13 steps in one message" in member.never_takes(8, 13)
    # With the inequality off the limiter takes any number.
    member, _, _ = make_member(max_insert_steps=12)
    assert member.never_takes(8, 13) is None


@pytest.mark.parametrize("view", ["unrolls", "steps"])
def test_draws_are_counted_by_item(view):
    member, pages, _ = make_member()
    rng, naive = np.random.default_rng(1), {}
    for _ in range(20):
        rows = rng.integers(LENGTH, size=6) if view == "steps" else np.zeros(6, np.int64)
        drawn = rng.choice(pages, 6)
        items = list(zip(drawn.tolist(), rows.tolist(), strict=True))
        for item in items:
            naive[item] = naive.get(item, 0) + 1
        counted = member.count(view, Draw(drawn, rows, np.ones(6), 8))
        assert counted.tolist() == [naive[item] for item in items]


def test_a_row_of_an_unroll_that_is_drawn_whole_does_not_matter():
    member, pages, _ = make_member()
    draws = [Draw(pages[:1], np.array([row]), np.ones(1), 8) for row in (0, 2)]
    assert [member.count("unrolls", draw).tolist() for draw in draws] == [[1], [2]]
    assert [member.count("steps", draw).tolist() for draw in draws] == [[3], [1]]


def test_counts_stop_at_the_largest_number_and_begin_anew_with_a_page():
    member, pages, _ = make_member()
    often = Draw(np.repeat(pages[:1], 40_000), np.zeros(40_000, np.int64), np.ones(40_000), 8)
    assert member.count("unrolls", often).tolist() == [40_000] * 40_000
    once = Draw(pages[:2], np.zeros(2, np.int64), np.ones(2), 8)
    assert member.count("unrolls", often).max() == 65_535
    assert member.count("unrolls", once).tolist() == [65_535, 1]
    member.inserted(pages[:1])
    assert member.count("unrolls", once).tolist() == [1, 2]


def test_a_sampler_is_made_when_its_view_is_first_drawn_and_knows_what_is_stored():
    member, pages, _ = make_member()
    assert member.views == ["steps", "unrolls"]
    assert not member.samplers
    before = member.num_bytes
    sampler = member.sampler("unrolls")
    assert member.sampler("unrolls") is sampler
    assert list(member.samplers) == ["unrolls"]
    assert member.num_bytes == before + sampler.num_bytes
    drawn = sampler.draw(500, np.random.default_rng(0))
    assert set(drawn.pages.tolist()) == set(pages.tolist())
    assert drawn.num_stored == 8


def test_a_member_without_the_samplers_column_draws_no_view_that_needs_it():
    assert make_member(columns=())[0].views == []
    assert make_member(columns=(), sampler="uniform")[0].views == ["steps", "unrolls"]


def test_a_lease_lasts_as_long_as_the_config_says(monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    member, _, _ = make_member()
    lease_s = ReplayConfig(capacity_steps=1).lease_s
    assert member.lease_ends_at == 100.0 + lease_s
    now = 250.0
    member.renew_lease()
    assert member.lease_ends_at == 250.0 + lease_s


def test_a_restored_member_goes_on_with_queue_counts_and_samplers():
    member, pages, store = make_member(capacity=8, samples_per_insert=2.0, max_insert_steps=32)
    member.dequeue(1)
    member.drop_queue("no_reader", num_left=5)
    member.limiter.inserted_steps = 17
    rng = np.random.default_rng(0)
    member.count("unrolls", member.sampler("unrolls").draw(6, rng))
    other = Member(member.settings, store.index, ReplayConfig(capacity_steps=8 * LENGTH, sampler="per"))
    other.load_state_dict(saved(member.state_dict()))
    assert queued(other) == pages[3:].tolist()
    assert other.stats() == member.stats()
    assert other.imbalance == 0
    np.testing.assert_array_equal(other.num_draws, member.num_draws)
    drawn = [one.sampler("unrolls").draw(20, np.random.default_rng(3)) for one in (member, other)]
    np.testing.assert_array_equal(drawn[0].pages, drawn[1].pages)
    np.testing.assert_array_equal(drawn[0].probabilities, drawn[1].probabilities)
