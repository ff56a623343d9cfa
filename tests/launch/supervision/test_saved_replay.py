"""The accounts of a resumed shared replay, from checkpoints that were written at different times."""

from __future__ import annotations

from types import SimpleNamespace

from launch.supervision.saved_replay import SavedReplay


def account(received, marks):
    """Accounts of one shard: marks by actor, each of environment 0."""
    numbers = [[[0, actor, 0, 0], mark] for actor, mark in marks.items()]
    incarnations = [[[0, actor], 0] for actor in marks]
    return {"ledger": {"received": received}, "streams": {"marks": numbers, "incarnations": incarnations}}


def saved(accounts, content=()):
    return SimpleNamespace(accounts=list(accounts), replay=lambda: list(content))


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


def loaded(checkpoints, num_shards=1):
    ports = [Port() for _ in range(num_shards)]
    SavedReplay([(member(number), checkpoint) for number, checkpoint in checkpoints.items()]).load_into(ports)
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


def test_content_that_is_as_new_as_every_checkpoint_stays_as_it_is():
    content = [account(9, {0: 5, 2: 4})]
    (port,) = loaded({0: saved([], content), 1: saved([account(9, {0: 5, 2: 4})])})
    assert (port.content, port.accounts) == (content[0], None)


def test_content_older_than_a_checkpoint_gets_the_newer_accounts():
    (port,) = loaded({0: saved([], [account(9, {0: 5, 2: 4})]), 1: saved([account(11, {0: 5, 2: 6})])})
    assert port.accounts == ({0: 5, 2: 6}, [11])
