"""The watch over a part whose process dies, with a store that is away when the test says so."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from laser.futures import done, failed
from laser.ports import PortAwayError, PortClosedError
from launch.runtimes.runtime import WorkerDiedError
from launch.supervision.restart_watch import RestartWatch


class Store:
    """A store's port; `away` counts the calls that it refuses still."""

    def __init__(self):
        self.is_lost, self.num_out_of_reach, self.num_asked = False, 0, 0
        self.error = None

    def newest_version(self):
        self.num_asked += 1
        if self.error is not None:
            return failed(self.error)
        return failed(PortAwayError("started anew")) if self.is_lost else done(3)

    def begin_again(self):
        if self.num_out_of_reach:
            self.num_out_of_reach -= 1
            return failed(PortAwayError("out of reach"))
        self.is_lost = False
        return done(None)


class Watched:
    def __init__(self, budget=3):
        self.store, self.now, self.begun, self.budget = Store(), 0.0, [], budget
        self.watch = RestartWatch(
            "the parameter store",
            self.store.newest_version,
            self.store.begin_again,
            self.may_die,
            lambda: self.begun.append(self.now),
            lambda: self.now,
        )

    def may_die(self):
        self.budget -= 1
        return self.budget >= 0

    def look(self, times=10):
        for _ in range(times):
            self.now += 0.5
            self.watch.look()


def test_a_store_that_lives_is_only_asked_now_and_then():
    watched = Watched()
    watched.look(20)
    assert not watched.begun
    assert 3 <= watched.store.num_asked <= 10


@pytest.mark.parametrize("num_out_of_reach", [0, 2])
def test_a_store_that_was_started_anew_begins_once(num_out_of_reach):
    watched = Watched()
    watched.store.is_lost, watched.store.num_out_of_reach = True, num_out_of_reach
    watched.look(30)
    assert len(watched.begun) == 1
    assert not watched.store.is_lost
    assert watched.budget == 2


def test_a_store_that_dies_too_often_ends_the_run():
    watched = Watched(budget=2)
    for _ in range(2):
        watched.store.is_lost = True
        watched.look()
    watched.store.is_lost = True
    with pytest.raises(WorkerDiedError, match="the parameter store has ended"):
        watched.look()
    assert len(watched.begun) == 2


def test_a_store_that_has_ended_for_good_ends_the_run():
    watched = Watched()
    watched.store.error = PortClosedError("the parameter store has ended")
    with pytest.raises(PortClosedError):
        watched.look()


def test_it_waits_for_no_answer():
    watched = Watched()
    late: Future = Future()
    watched.watch._ask = lambda: late
    watched.look()
    assert not watched.begun
    late.set_result(3)
    watched.look()
    assert not watched.begun
