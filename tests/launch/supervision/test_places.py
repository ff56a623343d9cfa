"""Places with stand-ins for components: members that lose a process while they start."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from laser.environments.base import EnvironmentFailedError
from laser.ports import NodeLostError, NoPlaceError
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.recording.recorder import Recorder
from launch.supervision import places
from launch.supervision.places import Places

LOST = NodeLostError("actor/0 has ended with its node")


class Session:
    """As much of a session as places ask; starts end with the next of these errors, or well with None."""

    def __init__(self, monkeypatch, errors, max_failures=3, no_place_at=-1):
        self.errors, self.no_place_at = list(errors), no_place_at
        self.placed, self.released, self.entered, self.said, self.chosen, self.stopped = 0, [], [], [], 0, []
        run = SimpleNamespace(replay=None)
        plan = plan_member(load_preset("cartpole", {"runtime": "ray", "max_failures": max_failures}))
        monkeypatch.setattr(places, "place_later", self._place)
        monkeypatch.setattr(places, "restore", lambda run, member: (None, None))
        monkeypatch.setattr(places, "Starting", lambda topology, in_turns: self)
        monkeypatch.setattr(places, "enter", lambda run, topology, *rest: self.entered.append(topology.number))
        runtime = SimpleNamespace(release=lambda workers, parameters, shards: self.released.append(workers) or [])
        self.places = Places(
            [plan],
            [lambda: nullcontext(run)],
            room=lambda: 1,
            open_recorder=lambda files, run, member: Recorder(in_turns=True),
            runtime=runtime,
            shared=["shard"],
            finish=lambda supervisor: None,
            save=lambda supervisor: None,
            supervise=lambda topology, recorder, run: SimpleNamespace(
                topology=topology, stop=lambda ending, error: self.stopped.append(error)
            ),
            say=lambda run, line: self.said.append(line),
            choose=self._choose,
            saved=SimpleNamespace(),
        )

    is_over = True

    def wait(self):
        error = self.errors.pop(0)
        if error is not None:
            raise error
        return "not compiled"

    def _place(self, member, recorder, runtime, shared):
        if self.placed == self.no_place_at:
            raise NoPlaceError("no node has a free GPU")
        self.placed += 1
        number = self.placed
        return SimpleNamespace(member=member, config=member.config, number=number, workers=number, parameters=None)

    def _choose(self, member):
        self.chosen += 1
        return member


@pytest.mark.parametrize("wait", [False, True])
def test_a_member_that_loses_its_node_while_it_starts_starts_again(monkeypatch, wait):
    session = Session(monkeypatch, [LOST, LOST, None])
    session.places.begin()
    (supervisor,) = session.places.ready(wait)
    assert (session.placed, session.released, session.entered) == (3, [1, 2], [3])
    assert supervisor.topology.number == 3
    assert session.chosen == 1, "it keeps the settings that were chosen for it"
    assert session.stopped == []
    assert session.said == ["member 0 starts again: actor/0 has ended with its node"] * 2


def test_one_that_loses_processes_too_often_fails(monkeypatch):
    session = Session(monkeypatch, [LOST] * 3, max_failures=2)
    session.places.begin()
    session.places.ready(wait=False)
    assert (session.placed, session.stopped) == (3, [LOST])


def test_one_whose_environment_fails_does_not_start_again(monkeypatch):
    error = EnvironmentFailedError("reset", "it fails")
    session = Session(monkeypatch, [error])
    session.places.begin()
    session.places.ready(wait=False)
    assert (session.placed, session.said, session.stopped) == (1, [], [error])


def test_one_that_has_no_place_any_more_says_so(monkeypatch):
    session = Session(monkeypatch, [LOST], no_place_at=1)
    session.places.begin()
    session.places.ready(wait=False)
    assert [str(error) for error in session.stopped] == ["no node has a free GPU"]
