"""The accounts of a resumed shared replay, from checkpoints that were written at different times."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from launch.supervision.saved_replay import SavedReplay


def account(received, marks):
    """Accounts of one shard: marks by actor, each of environment 0."""
    numbers = [[[0, actor, 0, 0], mark] for actor, mark in marks.items()]
    incarnations = [[[0, actor], 0] for actor in marks]
    ledger = {
        "received": received,
        "inserted": received - 3,
        "rejected": {"bad": 1},
        "failed": {"stopped": 2},
        "lost": 0,
    }
    return {"ledger": ledger, "streams": {"marks": numbers, "incarnations": incarnations}}


def saved(accounts, content=(), **totals):
    return SimpleNamespace(
        accounts=list(accounts), replay=lambda: list(content), recorder={"totals": totals}, replay_fault=""
    )


def member(number):
    return SimpleNamespace(actor_numbers=range(2 * number, 2 * number + 2))


class Port:
    def __init__(self):
        self.accounts = self.content = None

    def load_state_dict(self, state):
        self.content = state

    def load_accounts(self, streams, ledgers):
        (state,) = streams
        self.accounts = {key[1]: number for key, number in state["marks"]}, [each["received"] for each in ledgers]


def loaded(checkpoints, num_shards=1, shared=()):
    ports = [Port() for _ in range(num_shards)]
    members = [(member(number), checkpoint) for number, checkpoint in checkpoints.items()]
    SavedReplay(members, shared).load_into(ports)
    return ports


def test_the_ledger_is_the_newest_and_marks_are_those_of_each_members_own_checkpoint():
    """Member 0 goes on from an older checkpoint than its unrolls of 7, so that it makes those after 5 again."""
    (port,) = loaded({0: saved([account(9, {0: 5, 2: 4})]), 1: saved([account(20, {0: 7, 2: 13})])})
    assert port.accounts == ({0: 5, 2: 13}, [20])


def test_checkpoints_without_accounts_go_on_with_those_of_member_0():
    (port,) = loaded({0: saved([account(9, {0: 5, 2: 4})]), 1: saved([])})
    assert port.accounts == ({0: 5, 2: 4}, [9])


def test_a_replay_that_was_never_saved_begins_without_accounts():
    (port,) = loaded({0: saved([]), 1: None})
    assert port.accounts is port.content is None


def test_accounts_of_several_shards_continue_in_another_number_of_them():
    ports = loaded({0: saved([account(9, {0: 5}), account(4, {1: 3})])}, num_shards=3)
    assert [port.accounts for port in ports] == [({0: 5, 1: 3}, [9]), ({0: 5, 1: 3}, [4]), ({0: 5, 1: 3}, [])]


@pytest.mark.parametrize(
    ("totals", "counted"),
    [
        ({"unrolls": 20.0}, []),
        ({"unrolls": 24.0, "unrolls_lost/died": 3.0, "unrolls_lost/shard": 9.0, "unrolls_unreported/died": 1.0}, [2.0]),
        ({"unrolls": 16.0}, [-4.0]),
    ],
)
def test_what_was_on_its_way_when_a_killed_run_was_saved_has_a_reason(totals, counted):
    replay, reports = SavedReplay([(member(0), saved([account(20, {0: 5})], **totals))]), []
    replay.count_in_transit(SimpleNamespace(report=reports.append))
    found = {name: n for report in reports for name, n in report.counters.items()}
    names = {True: "unrolls_lost/not_saved", False: "unrolls_unreported/not_saved"}
    assert found == {names[n > 0]: abs(n) for n in counted}


def test_content_that_is_as_new_as_every_checkpoint_stays_as_it_is():
    content = [account(9, {0: 5, 2: 4})]
    (port,) = loaded({0: saved([], content), 1: saved([account(9, {0: 5, 2: 4})])})
    assert (port.content, port.accounts) == (content[0], None)


def test_what_the_sweep_saved_after_its_members_is_newer_than_their_accounts():
    """Member 0 makes its unrolls after 5 again; those of members without a checkpoint keep their marks."""
    shared = [account(12, {0: 6, 2: 4})]
    (port,) = loaded({0: saved([account(9, {0: 5, 2: 4})]), 1: None}, shared=shared)
    assert (port.content, port.accounts) == (shared[0], ({0: 5, 2: 4}, [12]))


@pytest.mark.parametrize("received", [9, 15])
def test_of_two_contents_the_newer_one_is_taken(received):
    shared, own = [account(12, {0: 6})], [account(received, {0: 5})]
    (port,) = loaded({0: saved([], own)}, shared=shared)
    assert port.content == (own if received > 12 else shared)[0]


def test_content_older_than_a_checkpoint_gets_the_newer_accounts():
    (port,) = loaded({0: saved([], [account(9, {0: 5, 2: 4})]), 1: saved([account(11, {0: 5, 2: 6})])})
    assert port.accounts == ({0: 5, 2: 6}, [11])
