"""The schedules with stand-ins for members: who is waited for, and who is not."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

from launch.supervision import free
from launch.supervision.free import FreeSchedule
from launch.supervision.pace import PaceLimit


class Member:
    """As much of an supervisor as a free schedule asks; it makes 10 env steps between two looks."""

    def __init__(self, number, env_steps, num_steps, *, interval_s=60.0):
        self.number, self.env_steps, self.num_steps = number, env_steps, num_steps
        self.finished, self.evaluation, self.collected, self.given_up = "", None, None, False
        self.held: list[bool] = []
        answered: Future = Future()
        answered.set_result({})
        self.recorder = SimpleNamespace(
            check=lambda: None, snapshot=self.position, position=self.position, report=lambda report: None
        )
        learner = SimpleNamespace(call=lambda method: answered)
        config = SimpleNamespace(learner=SimpleNamespace(checkpoint_interval_s=interval_s), checkpoint_replay=True)
        self.topology = SimpleNamespace(learner=learner, config=config, owns_replay=number == 0)

    def position(self):
        return SimpleNamespace(env_steps=self.env_steps)

    def why_over(self, snapshot):
        self.env_steps += 10
        return "steps" if snapshot.env_steps >= self.num_steps else ""

    def stop(self, finished, error=None):
        self.finished = finished

    def hold(self, is_held):
        self.held.append(is_held)

    def nothing(self, *arguments):
        return None

    def collect_evaluation(self):
        if self.evaluation is not None and self.evaluation.done():
            self.collected, self.evaluation = self.evaluation.result(), None

    def give_up_evaluation(self):
        self.given_up = self.evaluation is not None

    start = check_workers = prepare_learner = start_evaluation_if_due = end_accounts = nothing


def test_nobody_waits_for_a_member_that_a_resumed_population_finds_at_its_end():
    done, rest = Member(0, 100, 100), Member(1, 0, 400)
    pace = PaceLimit(2, slack_steps=30, lease_s=60.0)
    FreeSchedule([done, rest], lambda: False, lambda supervisor, snapshot: None, pace=pace).run()
    assert (done.finished, rest.finished) == ("steps", "steps")
    assert rest.held
    assert not any(rest.held)


def test_the_replay_that_a_member_at_its_end_keeps_for_the_others_is_saved_on():
    done, rest = Member(0, 100, 100, interval_s=0.0), Member(1, 0, 100, interval_s=0.0)
    saved = []
    FreeSchedule([done, rest], lambda: False, lambda supervisor, snapshot: saved.append(supervisor.number)).run()
    assert saved[:4] == [1, 0, 1, 0]


def test_an_evaluation_under_way_at_a_members_end_holds_up_nobody_and_is_not_lost():
    done, rest, last = Member(0, 0, 20), Member(1, 0, 100), Member(2, 0, 100)
    for member in (done, last):
        member.evaluation = Future()
    at_looks = []

    def look(snapshot):
        at_looks.append(done.finished)
        if len(at_looks) == 5:
            done.evaluation.set_result("first")
            threading.Timer(0.2, last.evaluation.set_result, ("last",)).start()  # ends after everybody

    rest.prepare_learner = look
    FreeSchedule([done, rest, last], lambda: False, lambda supervisor, snapshot: None).run()
    assert "steps" in at_looks[:5], "the other one was looked at while the evaluation went on"
    assert (done.collected, last.collected) == ("first", "last")
    assert not done.given_up


def test_an_evaluation_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(free, "CALL_DEADLINE_S", 0.1)
    member = Member(0, 0, 20)
    member.evaluation = Future()
    FreeSchedule([member], lambda: False, lambda supervisor, snapshot: None).run()
    assert member.given_up


def test_a_resumed_population_does_not_wait_for_a_member_that_is_far_behind():
    ahead, behind = Member(0, 3000, 3200), Member(1, 1000, 1100)
    pace = PaceLimit(2, slack_steps=30, lease_s=60.0)
    FreeSchedule([ahead, behind], lambda: False, lambda supervisor, snapshot: None, pace=pace).run()
    assert (ahead.finished, behind.finished) == ("steps", "steps")
    assert not any(ahead.held)


def test_a_member_that_fails_as_all_are_stopped_fails_alone():
    one, two = Member(0, 0, 1000), Member(1, 0, 1000)
    failed: Future = Future()
    failed.set_exception(RuntimeError("no report here"))
    one.topology.learner.call = lambda method: failed
    FreeSchedule([one, two], lambda: True, lambda supervisor, snapshot: None).run()
    assert (one.finished, two.finished) == ("failed", "stopped")


def test_who_asks_to_stop_waits_for_no_evaluation():
    member = Member(0, 0, 1000)
    member.evaluation = Future()
    FreeSchedule([member], lambda: True, lambda supervisor, snapshot: None).run()
    assert member.finished == "stopped"
