"""The schedules with stand-ins for members: who is waited for, and who is not."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

from laser.ports import PortClosedError
from launch.runtimes.runtime import WorkerDiedError
from launch.supervision import free, parts
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
        self.is_recovering, self.rests = False, False
        self.parts = SimpleNamespace(has_lost_learner=False)

    def position(self):
        return SimpleNamespace(env_steps=self.env_steps)

    def why_over(self, snapshot):
        self.env_steps += 10
        return "steps" if snapshot.env_steps >= self.num_steps else ""

    def stop(self, finished, error=None):
        self.finished = finished

    def hold(self, is_held):
        self.held.append(is_held)

    def recovered(self):
        self.is_recovering = False
        return True

    def rest_until_recovered(self):
        self.rests = True

    def despite_deaths(self, action):
        return action()

    def nothing(self, *arguments):
        return None

    def collect_evaluation(self):
        if self.evaluation is not None and self.evaluation.done():
            self.collected, self.evaluation = self.evaluation.result(), None

    def give_up_evaluation(self):
        self.given_up = self.evaluation is not None

    start = check_workers = prepare_learner = start_evaluation_if_due = end_accounts = watch_replay = nothing
    start_last_evaluation = nothing


def test_the_last_evaluation_begins_before_the_members_end_and_is_collected():
    member = Member(0, 0, 100)

    def begin(snapshot):
        assert not member.finished
        member.evaluation = Future()
        member.evaluation.set_result("the agent as it ends")

    member.start_last_evaluation = begin
    FreeSchedule([member], lambda: False, lambda supervisor, snapshot: None).run()
    assert (member.finished, member.collected) == ("steps", "the agent as it ends")


def test_nobody_waits_for_a_member_that_a_resumed_population_finds_at_its_end():
    done, rest = Member(0, 100, 100), Member(1, 0, 400)
    pace = PaceLimit(2, slack_steps=30, lease_s=60.0)
    FreeSchedule([done, rest], lambda: False, lambda supervisor, snapshot: None, pace=pace).run()
    assert (done.finished, rest.finished) == ("steps", "steps")
    assert rest.held
    assert not any(rest.held)


def test_a_replay_of_all_is_saved_after_the_members_that_train():
    done, rest = Member(0, 100, 100, interval_s=0.0), Member(1, 0, 100, interval_s=0.0)
    saved = []
    FreeSchedule(
        [done, rest],
        lambda: False,
        lambda supervisor, snapshot: saved.append(supervisor.number),
        save_replay=lambda supervisors: saved.append([each.number for each in supervisors]),
    ).run()
    assert saved[:4] == [1, [0, 1], 1, [0, 1]], "the one that has ended owns the replay, whose save it accounts for"


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


def test_a_member_that_waits_for_a_new_learner_ends_once_it_is_there_and_is_not_saved_meanwhile():
    recovering, other = Member(0, 100, 100, interval_s=0.0), Member(1, 0, 500, interval_s=0.0)
    looks, saved = [], []
    recovering.why_over, why_over = lambda snapshot: "" if not looks else why_over(snapshot), recovering.why_over
    recovering.is_recovering = True

    def recovered():
        looks.append(recovering.finished)
        recovering.is_recovering = len(looks) < 4
        return not recovering.is_recovering

    recovering.recovered = recovered
    recovering.prepare_learner = lambda snapshot: saved.append("asked its learner")
    FreeSchedule([recovering, other], lambda: False, lambda supervisor, snapshot: saved.append(supervisor.number)).run()
    assert looks == [""] * 4
    assert recovering.rests, "its actors went on although it had all its steps"
    assert saved[:4] == [1, 1, 1, "asked its learner"]
    assert (recovering.finished, other.finished) == ("steps", "steps")


class Turn:
    """Members that wait: one after the other starts, each when one has given back its place."""

    def __init__(self, members, first_save):
        self.members, self.save, self.is_free = members, first_save, False

    @property
    def is_empty(self):
        return not self.members

    def give_back(self, supervisor):
        self.is_free = True

    def begin(self):
        return None

    def ready(self, wait):
        if self.is_empty or not self.is_free:
            return []
        self.is_free = False
        return [self.members.pop(0)]


def test_a_member_owns_the_replay_that_its_first_checkpoint_waits_for():
    members = [Member(0, 100, 100), Member(1, 0, 100), Member(2, 0, 100)]
    watched, owners = [], []
    for member in members:

        def own_replay(before, member=member):
            member.topology.owns_replay = True
            owners.append(before.number)

        member.own_replay = own_replay
        member.watch_replay = lambda member=member: watched.append(member.number)
    turn = Turn(members[1:], lambda supervisor: schedule.watch_replay())
    schedule = FreeSchedule(members[:1], lambda: False, lambda *what: None, waiting=turn)
    schedule.run()
    assert [member.finished for member in members] == ["steps"] * 3
    assert watched == [1, 2]
    assert owners == [0, 1], "whoever saw the shards last is asked for what they held"


def test_a_save_that_a_dying_learner_spoils_fails_nobody():
    member, saves = Member(0, 0, 100, interval_s=0.0), []

    def save(supervisor, snapshot):
        saves.append(snapshot.env_steps)
        if len(saves) == 1:
            member.parts.has_lost_learner = True
            raise PortClosedError("learner has ended")

    FreeSchedule([member], lambda: False, save).run()
    assert member.finished == "steps"
    assert len(saves) > 2


def test_a_call_that_fails_while_every_learner_lives_fails_its_member(monkeypatch):
    monkeypatch.setattr(parts, "_NOTICE_S", 0.0)
    one, two = Member(0, 0, 1000), Member(1, 0, 100)

    def check():
        raise PortClosedError("shard 0 has ended")

    one.check_workers = check
    FreeSchedule([one, two], lambda: False, lambda supervisor, snapshot: None).run()
    assert (one.finished, two.finished) == ("failed", "steps")


def test_a_learner_that_died_too_often_fails_its_member_alone():
    one, two = Member(0, 0, 1000), Member(1, 0, 100)
    one.parts.has_lost_learner = True

    def check():
        raise WorkerDiedError("learner/0 has ended")

    one.check_workers = check
    FreeSchedule([one, two], lambda: False, lambda supervisor, snapshot: None).run()
    assert (one.finished, two.finished) == ("failed", "steps")
