"""The two balances of a shard's ledger, and what is saved of it."""

import json
from collections import Counter

import pytest

from replay_server.serving.ledger import Ledger

# 20 unrolls came: 11 went in (7 are stored, 3 removed, 1 not saved), 2 were there, 3 were rejected, 1 failed, 3 wait.
COUNTS = {"received": 20, "inserted": 11, "duplicates": 2, "removed": 3, "not_saved": 1}
FAILED = Counter({"timed_out": 1})
REJECTED = Counter({"not_finite": 2, "unknown_member": 1})


def make_ledger(**changes):
    return Ledger(**COUNTS | {"rejected": Counter(REJECTED), "failed": Counter(FAILED)} | changes)


def test_it_balances_where_every_unroll_is_accounted_for():
    assert make_ledger().imbalances(num_pending=3, num_stored=7) == {"received": 0, "inserted": 0}


@pytest.mark.parametrize(
    ("name", "received", "inserted"),
    [
        ("received", 1, 0),
        ("inserted", -1, 1),
        ("duplicates", -1, 0),
        ("removed", 0, -1),
        ("not_saved", 0, -1),
        ("died", 0, -1),
    ],
)
def test_one_unroll_too_many_in_any_count_shows(name, received, inserted):
    ledger = make_ledger(**{name: COUNTS.get(name, 0) + 1})
    assert ledger.imbalances(3, 7) == {"received": received, "inserted": inserted}


def test_what_waits_what_is_stored_and_what_is_rejected_count_too():
    assert make_ledger().imbalances(4, 9) == {"received": -1, "inserted": -2}
    assert make_ledger(rejected=REJECTED + Counter(late=5)).imbalances(3, 7)["received"] == -5
    assert make_ledger(failed=FAILED + Counter(closed=5)).imbalances(3, 7)["received"] == -5


def test_counts_are_those_of_the_moment():
    ledger = make_ledger()
    counts = ledger.counts()
    ledger.received += 1
    ledger.rejected["not_finite"] += 1
    assert (counts.received, counts.rejected) == (20, REJECTED)
    assert ledger.counts().rejected["not_finite"] == 3


def test_a_restored_ledger_counts_on():
    ledger = Ledger()
    ledger.load_state_dict(json.loads(json.dumps(make_ledger(lost=6).state_dict())))
    assert ledger == make_ledger(lost=6)
    ledger.rejected["of a new kind"] += 1
    assert ledger.imbalances(3, 7)["received"] == -1


def test_what_is_not_saved_is_counted_under_a_reason():
    ledger = make_ledger()
    assert ledger.saved(num_pending=3).imbalances(num_pending=0, num_stored=7) == {"received": 0, "inserted": 0}
    saved = ledger.saved(num_pending=3, num_stored=7)
    assert saved.imbalances(num_pending=0, num_stored=0) == {"received": 0, "inserted": 0}
    assert (saved.failed, saved.not_saved) == (FAILED + Counter(not_saved=3), 8)
    assert ledger == make_ledger(), "the ledger itself counts on"


def test_ledgers_add_up():
    ledger = make_ledger(lost=1)
    ledger.add(make_ledger(lost=2))
    assert (ledger.received, ledger.lost, ledger.failed["timed_out"]) == (40, 3, 2)
    assert ledger.imbalances(6, 14) == {"received": 0, "inserted": 0}


def test_ledgers_from_before_there_were_reasons_for_failed_inserts_are_read():
    ledger = Ledger()
    ledger.load_state_dict(json.loads(json.dumps({**make_ledger().state_dict(), "failed": 1})))
    assert ledger.failed == {"unknown": 1}
    assert ledger.imbalances(3, 7)["received"] == 0


def test_the_successor_of_a_dead_shard_begins_empty_with_its_counts():
    ledger = Ledger()
    ledger.succeed(make_ledger(died=0), num_pending=3, num_stored=0, is_restored=False)
    assert (ledger.received, ledger.inserted, ledger.removed, ledger.not_saved) == (17, 11, 3, 1)
    assert ledger.died == 7, "all that was stored"
    assert ledger.imbalances(num_pending=0, num_stored=0) == {"received": 0, "inserted": 0}


def test_the_successor_of_a_dead_shard_counts_what_came_after_its_saved_state_as_died():
    # Saved with 5 stored and 2 removed; until its end 3 more came and one of the 5 was removed.
    ledger = Ledger(received=8, inserted=8, removed=2, not_saved=1)
    ledger.succeed(make_ledger(), num_pending=3, num_stored=5, is_restored=True)
    assert (ledger.inserted, ledger.removed, ledger.not_saved, ledger.died) == (11, 2, 1, 3)
    assert ledger.imbalances(num_pending=0, num_stored=5) == {"received": 0, "inserted": 0}


def test_a_shard_that_dies_twice_keeps_what_died_before():
    ledger = Ledger()
    ledger.succeed(make_ledger(), num_pending=3, num_stored=0, is_restored=False)
    ledger.received, ledger.inserted = ledger.received + 4, ledger.inserted + 4
    second = Ledger()
    second.succeed(ledger.counts(), num_pending=0, num_stored=0, is_restored=False)
    assert second.died == 7 + 4
