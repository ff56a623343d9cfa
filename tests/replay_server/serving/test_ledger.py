"""The two balances of a shard's ledger, and what is saved of it."""

import json
from collections import Counter

import pytest

from replay_server.serving.ledger import Ledger

# 20 unrolls came: 11 went in (7 are stored, 4 removed), 2 were there, 3 were rejected, 1 failed, 3 wait.
COUNTS = {"received": 20, "inserted": 11, "duplicates": 2, "failed": 1, "removed": 4}
REJECTED = Counter({"not_finite": 2, "unknown_member": 1})


def make_ledger(**changes):
    return Ledger(**COUNTS | {"rejected": Counter(REJECTED)} | changes)


def test_it_balances_where_every_unroll_is_accounted_for():
    assert make_ledger().imbalances(num_pending=3, num_stored=7) == {"received": 0, "inserted": 0}


@pytest.mark.parametrize(
    ("name", "received", "inserted"),
    [("received", 1, 0), ("inserted", -1, 1), ("duplicates", -1, 0), ("failed", -1, 0), ("removed", 0, -1)],
)
def test_one_unroll_too_many_in_any_count_shows(name, received, inserted):
    ledger = make_ledger(**{name: COUNTS[name] + 1})
    assert ledger.imbalances(3, 7) == {"received": received, "inserted": inserted}


def test_what_waits_what_is_stored_and_what_is_rejected_count_too():
    assert make_ledger().imbalances(4, 9) == {"received": -1, "inserted": -2}
    assert make_ledger(rejected=REJECTED + Counter(late=5)).imbalances(3, 7)["received"] == -5


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
