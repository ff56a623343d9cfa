"""The start of members: what is waited for is shown, and a stop ends the waiting."""

import io
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from actors.heartbeat import CONSTRUCTION, ENVIRONMENT
from laser.futures import done
from launch.errors import Interrupted, StoppedError
from launch.presets import load_preset
from launch.records.run_directory import open_run
from launch.runtimes import hangs
from launch.standard_output import name_long_waits
from launch.supervision.session import plan_session, run_session
from launch.supervision.signals import StopSignal
from launch.supervision.starting import Starting, start_all


class Worker:
    """A worker whose calls the test answers."""

    def __init__(self, name):
        self.name = name
        self.calls = []
        self.waits = False

    def call(self, method):
        self.calls.append(Future())
        return self.calls[-1]

    @property
    def waiting_for(self):
        return CONSTRUCTION if self.waits else ""

    def silent_s(self, waiting_for):
        """Answer as a process on Ray that is busy: it may hang in an environment, for all that is known."""
        return float(waiting_for == ENVIRONMENT or (self.waits and waiting_for == CONSTRUCTION))


@pytest.fixture
def member(monkeypatch):
    monkeypatch.setattr(hangs, "_CHECK_S", 0.01)
    config = load_preset("cartpole", {"runtime": "local"})
    actors = [Worker(f"actor/{number}") for number in range(5)]
    return SimpleNamespace(config=config, learner=Worker("learner"), actors=actors)


def test_workers_start_side_by_side_and_those_that_have_not_are_named(member):
    beginning = Starting(member, in_turns=False)
    member.actors[1].calls[0].set_result(None)
    assert beginning.waiting_for == ["learner", "actor/0", "actor/2", "actor/3", "actor/4"]
    for actor in member.actors:
        if not actor.calls[0].done():
            actor.calls[0].set_result(None)
    member.learner.calls[0].set_result("compiled")
    assert beginning.is_over
    assert beginning.wait() == "compiled"


def test_in_lockstep_an_actor_starts_after_the_one_before(member):
    beginning = Starting(member, in_turns=True)
    member.learner.calls[0].set_result("eager")
    seen = []

    def answer():
        seen.append([len(actor.calls) for actor in member.actors])
        for actor in member.actors:
            if actor.calls and not actor.calls[0].done():
                actor.calls[0].set_result(None)

    assert beginning.wait(answer) == "eager"
    assert seen == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_what_is_waited_for_is_named(member, capsys):
    member.actors[0].call = lambda method: done(None)
    deadline, seen = time.monotonic() + 10, []

    def look():
        seen.append(capsys.readouterr().err)
        if "waiting for learner, actor/1, actor/2 and 2 more to start" in "".join(seen):
            member.actors[3].waits = True
        if "waiting for CartPole-v1 of actor/3 to return from being constructed" in "".join(seen):
            raise StoppedError("stopped", "seen")
        assert time.monotonic() < deadline, seen

    with pytest.raises(StoppedError, match="seen"), name_long_waits(after_s=0.05):
        start_all([member], look)


def test_an_error_of_a_worker_ends_the_start(member):
    beginning = Starting(member, in_turns=False)
    member.learner.calls[0].set_exception(ValueError("no compiler"))
    with pytest.raises(ValueError, match="no compiler"):
        beginning.wait()


@pytest.mark.parametrize("number", [2, 15])
def test_a_stop_during_the_start_leaves_nothing_behind(tmp_path, monkeypatch, number):
    monkeypatch.setattr(hangs, "_CHECK_S", 0.0)  # looks before the quickest start is over
    config = load_preset("cartpole", {"run_dir": str(tmp_path / "run"), "quiet": True, "runtime": "local"})
    stop = StopSignal()
    stop.number = number
    error = Interrupted if number == 2 else StoppedError
    with pytest.raises(error, match="nothing was trained yet; start it again"), open_run(config, ["x"]) as run:
        run_session(plan_session([config]), [run], stop, lambda recorders: io.StringIO())
    assert not (tmp_path / "run").exists()
