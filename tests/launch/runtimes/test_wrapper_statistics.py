"""The collection of wrappers' statistics over actors that answer late, have none, or died."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

from actors.actor import Actor
from laser.environments.statistics import Moments
from laser.ports import PortClosedError
from launch.runtimes import wrapper_statistics
from launch.runtimes.wrapper_statistics import WrapperStatistics


class FakeActor:
    def __init__(self):
        self.calls = []

    def call(self, method, *arguments):
        self.calls.append((method, arguments, Future()))
        return self.calls[-1][2]

    def answer(self, value):
        future = self.calls[-1][2]
        future.set_exception(value) if isinstance(value, Exception) else future.set_result(value)


def seen(count):
    return {0: [Moments("A.rms", np.float64(count), np.float64(1.0), float(count))]}


@pytest.fixture
def actors(monkeypatch):
    monkeypatch.setattr(wrapper_statistics, "_PATIENCE_S", 0.0)
    return [FakeActor(), FakeActor()]


def collected(statistics):
    return {task: (each.count, each.num) for task, (each,) in statistics.collect().items()}


def test_an_actor_that_answers_late_is_read_the_next_time(actors):
    statistics = WrapperStatistics(actors)
    assert collected(statistics) == {}
    actors[0].answer(seen(3))
    assert collected(statistics) == {0: (3.0, 1)}
    actors[1].answer(seen(5))
    assert collected(statistics) == {0: (8.0, 2)}
    assert len(actors[1].calls) == 1, "one call at a time"


def test_the_statistics_of_an_actor_that_died_are_those_of_the_last_time(actors):
    statistics = WrapperStatistics(actors)
    statistics.collect()
    for actor in actors:
        actor.answer(seen(4))
    statistics.collect()
    statistics.collect()
    actors[0].answer(PortClosedError("it died"))
    actors[1].answer(seen(6))
    assert collected(statistics) == {0: (10.0, 2)}
    statistics.give(actors[0])
    method, arguments, _ = actors[0].calls[-1]
    assert (method, arguments) == (Actor.give_statistics, (statistics.newest,))


def test_actors_without_such_wrappers_are_asked_once(actors):
    statistics = WrapperStatistics(actors)
    statistics.collect()
    for actor in actors:
        actor.answer({})
    for _ in range(3):
        assert statistics.collect() == {}
    assert [len(actor.calls) for actor in actors] == [1, 1]


def test_actors_that_have_made_no_environments_yet_are_asked_again(actors):
    statistics = WrapperStatistics(actors)
    statistics.collect()
    for actor in actors:
        actor.answer(None)
    statistics.collect()
    statistics.collect()
    assert [len(actor.calls) for actor in actors] == [2, 2]
