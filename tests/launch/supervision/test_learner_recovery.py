"""A member whose learner dies: another one continues from the newest checkpoint, and all that is lost is counted."""

from __future__ import annotations

import itertools
import math
import threading
import time
import types
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import pytest

from laser.ports import NoPlaceError, PortClosedError, wait
from launch.errors import NothingToResumeError
from launch.planning.member_plan import plan_member
from launch.presets import change, load_preset
from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.runtimes.local_runtime import LocalRuntime
from launch.runtimes.runtime import NotPlacedError, WorkerDiedError
from launch.supervision import learner_backup, learner_recovery, parts
from launch.supervision.checkpointing import read_newest, save_member
from launch.supervision.free import FreeSchedule
from launch.supervision.member_supervisor import MemberSupervisor
from launch.topology import place_member
from learner.feedback.column_writer import ColumnWriter
from learner.learner import Learner
from replay_server.saving.segments import Segment

CONFIG = {
    "quiet": True,
    "runtime": "local",
    "num_envs": 2,
    "num_actors": 2,
    "steps": 1_000_000,
    "replay.capacity_steps": 2000,
    "replay.min_steps": 64,
    "learner.compile": "off",
}


class Member:
    """A member in threads, whose learner can be killed, with a run directory for its checkpoints."""

    def __init__(self, path, recorder, runtime, **changes):
        # As on Ray: there the default is the same, but nothing dies in threads.
        config = change(load_preset("cartpole"), CONFIG | changes)
        self.plan = plan_member(config)
        path.mkdir()
        self.run, self.recorder = RunDirectory(path, resumed=False), recorder
        self.topology = place_member(self.plan, runtime, recorder)
        self.published, self.said, self.dead = [], [], []
        publish = self.topology.parameters.publish

        def note(parameters):
            self.published.append(parameters.version)
            return publish(parameters)

        self.topology.parameters.publish = note
        newest = partial(read_newest, self.run, self.plan)
        self.supervisor = MemberSupervisor(self.topology, recorder, newest=newest, say=self.said.append)
        wait(self.topology.learner.call(Learner.warm_up), 60.0, "the learner")
        recorder.begin()

    def save(self, *_):
        accounts = self.supervisor.parts.replay.accounts
        return save_member(self.run, self.topology, self.recorder, self.recorder.snapshot(), accounts)

    def kill(self, monkeypatch):
        """End the learner as the end of its process would; return it as it was."""
        worker, failure, incarnation = (
            self.topology.learner,
            self.topology.learner.failure,
            self.topology.learner.incarnation,
        )
        learner = worker._host._component
        worker._host.close()
        error = WorkerDiedError("learner has ended")
        monkeypatch.setattr(worker, "failure", lambda: error if worker.incarnation == incarnation else failure())
        self.dead.append(learner)
        return learner

    def until(self, condition, look=lambda: None):
        deadline = time.monotonic() + 60.0
        while not condition():
            look()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def check(self):
        """Do what the free schedule does about the workers at each look."""
        self.supervisor.check_workers()
        return self.supervisor.is_recovering and self.supervisor.recovered()

    def learn(self, num_updates):
        goal = self.updates() + num_updates
        self.until(lambda: self.updates() >= goal, self.check)

    def updates(self):
        component = self.topology.learner._host._component
        return 0 if component is None else component.num_updates

    @property
    def counters(self):
        return self.recorder.snapshot().counters


@pytest.fixture
def member(tmp_path):
    runtime = LocalRuntime()
    with Recorder() as recorder:
        yield Member(tmp_path / "run", recorder, runtime)
        runtime.close()


def test_another_learner_continues_from_the_newest_checkpoint(member, monkeypatch):
    member.supervisor.start()
    member.learn(20)
    path = member.save()
    saved = read_newest(member.run, member.plan).num_updates
    member.learn(20)
    dead = member.kill(monkeypatch)
    before = list(member.published)
    member.until(lambda: not member.supervisor.is_recovering and member.topology.learner.incarnation, member.check)
    taken_over = member.topology.learner._host._component
    assert taken_over.num_updates >= saved
    member.learn(20)
    versions = member.published
    assert len(versions) > len(before)
    assert all(one < other for one, other in itertools.pairwise(versions)), "a version was published twice"
    lost = dead.num_updates - saved
    assert lost >= 20
    assert member.counters["updates_lost/died"] == lost
    assert member.counters["restarts/learner_died"] == 1
    assert member.said == [f"learner died: another one continues from {path.name}; {lost} updates are lost"]


def test_column_writes_that_had_not_arrived_are_counted(member, monkeypatch):
    monkeypatch.setattr(ColumnWriter, "num_pending", 7)
    member.supervisor.start()
    member.learn(5)
    member.until(lambda: member.recorder.snapshot().gauges.get("column_writes_pending") == 7.0, member.check)
    for num_deaths in (1, 2):
        member.kill(monkeypatch)
        member.learn(5)
        taken_over = member.topology.learner._host._component.version
        member.until(lambda least=taken_over: member.recorder.snapshot().gauges["parameter_version"] >= least)
        assert member.counters["column_writes_lost/died"] == 7.0 * num_deaths


def settled(member):
    """Stop a member, and return its counters and the statistics of its replay."""
    member.supervisor.stop("steps")
    report = member.supervisor.despite_deaths(
        lambda: wait(member.topology.learner.call(Learner.report), 60.0, "the last report")
    )
    member.recorder.report(report)
    member.supervisor.end_accounts()
    return member.counters, wait(member.topology.replay.stats(), 60.0, "statistics")


def test_the_ledger_adds_up_and_the_counts_of_the_learner_are_those_of_its_weights(member, monkeypatch):
    member.supervisor.start()
    member.learn(10)
    member.save()
    for _ in range(2):
        member.learn(10)
        member.kill(monkeypatch)
        member.until(
            lambda: not member.supervisor.parts.has_lost_learner and not member.supervisor.is_recovering, member.check
        )
    member.learn(10)
    counters, stats = settled(member)
    learner = member.topology.learner._host._component
    assert counters["learner_steps"] == learner.num_updates
    assert counters["steps_learned/online"] == learner._counters["steps_learned/online"]
    assert sum(each.num_updates for each in member.dead) + learner.num_updates == (
        counters["learner_steps"] + counters["updates_lost/died"] + 2 * read_newest(member.run, member.plan).num_updates
    )
    ledger = stats.ledger
    assert not any(stats.imbalances.values())
    assert counters["unrolls"] == ledger.received == ledger.inserted + ledger.failed.total()
    assert ledger.duplicates == ledger.lost == ledger.rejected.total() == 0
    assert set(ledger.failed) <= {"stopped"}


def test_without_a_checkpoint_it_starts_from_the_initial_weights_and_says_so(member, monkeypatch):
    first = wait(member.topology.learner.call(Learner.newest), 60.0, "the weights").vector.copy()
    member.supervisor.start()
    member.learn(5)
    dead = member.kill(monkeypatch)
    weights = []
    take_over = Learner.take_over

    def spied(self, version, state):
        how = take_over(self, version, state)
        weights.append(self.newest().vector.copy())
        return how

    monkeypatch.setattr(Learner, "take_over", spied)
    spied.__name__ = "take_over"
    member.learn(5)
    assert (weights[0] == first).all()
    assert member.counters["updates_lost/died"] == dead.num_updates
    assert member.said == [
        "learner died: there is no checkpoint yet, another one starts from the initial weights; "
        f"{dead.num_updates} updates are lost"
    ]


def test_a_recovery_reads_nothing_of_the_saved_replay(tmp_path, monkeypatch):
    runtime = LocalRuntime()
    with Recorder() as recorder:
        member = Member(tmp_path / "run", recorder, runtime, checkpoint_replay=True)
        member.supervisor.start()
        member.learn(20)
        path = member.save()
        for file in (member.run.path / "replay").iterdir():
            file.unlink()
        monkeypatch.setattr(Segment, "verify", lambda *_: pytest.fail("it reads a file of the replay"))
        member.kill(monkeypatch)
        member.learn(5)
        assert f"another one continues from {path.name}" in member.said[0]
        runtime.close()


def test_where_no_checkpoint_verifies_the_run_ends_instead_of_beginning_anew(member, monkeypatch):
    member.supervisor.start()
    member.learn(5)
    for path in (member.save(), member.save()):
        (path / "state.json").write_text("{}")
    member.kill(monkeypatch)
    with pytest.raises(NothingToResumeError, match=r"no checkpoint under .* verifies: .*state\.json"):
        member.until(lambda: False, member.check)
    assert member.said == ["learner died, and no checkpoint is left from which another one could continue"]


def backed_up(member, monkeypatch, num_updates=20):
    """Let a member learn, keep a copy of its learner in memory, and return the copy's updates."""
    monkeypatch.setattr(learner_backup, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(learner_backup, "_MOST_SHARE", 1.0)
    recovery = member.supervisor.parts.recovery
    member.learn(num_updates)
    until = member.updates() + 1
    member.until(lambda: kept_updates(member) >= until, recovery.back_up)
    return kept_updates(member)


def kept_updates(member):
    newest = member.supervisor.parts.recovery._backup._newest
    return -1 if newest is None else newest.num_updates


def recovered(member):
    return member.topology.learner.incarnation and not member.supervisor.is_recovering


def test_another_learner_continues_from_a_copy_in_memory_that_is_newer_than_the_checkpoint(member, monkeypatch):
    member.supervisor.start()
    member.learn(20)
    member.save()
    kept = backed_up(member, monkeypatch)
    learner = member.kill(monkeypatch)
    states = []
    restore = Learner._restore
    monkeypatch.setattr(Learner, "_restore", lambda self, state: (states.append(state), restore(self, state)))
    member.until(lambda: recovered(member), member.check)
    assert [state["numbers"]["num_steps"] for state in states] == [kept]
    lost = learner.num_updates - kept
    assert member.counters["updates_lost/died"] == lost
    assert member.said == [
        f"learner died: another one continues from update {kept:,}, of which there is a copy in memory; "
        f"{lost} updates are lost"
    ]
    member.learn(20)
    counters, _ = settled(member)
    assert counters["learner_steps"] == member.topology.learner._host._component.num_updates


def test_a_checkpoint_that_is_newer_than_the_copy_in_memory_counts(member, monkeypatch):
    member.supervisor.start()
    backed_up(member, monkeypatch)
    member.learn(20)
    path = member.save()
    member.kill(monkeypatch)
    member.until(lambda: recovered(member), member.check)
    assert f"another one continues from {path.name}; " in member.said[0]


def test_a_copy_in_memory_with_numbers_that_are_not_finite_is_of_no_use(member, monkeypatch):
    member.supervisor.start()
    path = member.save()
    backed_up(member, monkeypatch)
    tensors = member.supervisor.parts.recovery._backup._newest.state["tensors"]["networks"]
    next(iter(tensors.values())).view(-1)[0] = float("nan")
    member.kill(monkeypatch)
    member.until(lambda: recovered(member), member.check)
    assert f"another one continues from {path.name}; " in member.said[0]


def test_where_no_checkpoint_verifies_a_copy_in_memory_carries_the_run_on(member, monkeypatch):
    member.supervisor.start()
    member.learn(5)
    (member.save() / "state.json").write_text("{}")
    kept = backed_up(member, monkeypatch)
    member.kill(monkeypatch)
    member.until(lambda: recovered(member), member.check)
    assert f"another one continues from update {kept}, " in member.said[0]


def test_a_copy_for_which_there_is_no_room_is_not_kept(member, monkeypatch):
    monkeypatch.setattr(learner_backup, "MOST_BACKUP_BYTES", 1000)
    backup = member.supervisor.parts.recovery._backup
    member.until(lambda: backup._due_at == math.inf, backup.look)
    assert backup.newest() is None


@pytest.mark.parametrize(("copying_s", "again_after_s"), [(0.001, 1.0), (0.1, 5.0)])
def test_the_longer_a_copy_takes_the_later_the_next_one_begins(member, monkeypatch, copying_s, again_after_s):
    clock, asked = types.SimpleNamespace(now=100.0), []
    monkeypatch.setattr(learner_backup, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    state = wait(member.topology.learner.call(Learner.state_dict), 60.0, "the state")

    def call(method):
        asked.append(Future())
        return asked[-1]

    monkeypatch.setattr(member.topology.learner, "call", call)
    backup = member.supervisor.parts.recovery._backup
    backup.look()
    clock.now += copying_s
    asked[0].set_result(state)
    backup.look()
    clock.now += again_after_s - 0.01
    backup.look()
    assert len(asked) == 1
    clock.now += 0.02
    backup.look()
    assert len(asked) == 2
    monkeypatch.undo()


@pytest.mark.parametrize("outlasts", [True, False])
def test_a_learner_is_copied_where_another_one_may_take_its_place(member, monkeypatch, outlasts):
    monkeypatch.setattr(type(member.plan.config), "outlasts_deaths", outlasts)
    asked = []
    monkeypatch.setattr(learner_backup.LearnerBackup, "look", lambda self: asked.append(1))
    member.check()
    assert bool(asked) == outlasts


def without_a_place(member, monkeypatch):
    """Kill the learner, and refuse a place to another one until the returned event is set."""
    has_place, worker = threading.Event(), member.topology.learner
    monkeypatch.setattr(learner_recovery, "_PLACE_INTERVAL_S", 0.01)
    replace = worker.replace

    def place():
        if not has_place.is_set():
            raise NoPlaceError("no node of the cluster has a free GPU for the learner")
        replace()

    monkeypatch.setattr(worker, "replace", place)
    member.kill(monkeypatch)
    member.until(lambda: member.supervisor.is_recovering, member.check)
    return has_place


def test_a_learner_waits_for_a_place_and_continues_then(member, monkeypatch):
    member.supervisor.start()
    member.learn(20)
    member.save()
    has_place = without_a_place(member, monkeypatch)
    for _ in range(20):
        member.check()
        time.sleep(0.01)
    why = "no node of the cluster has a free GPU for the learner"
    assert member.said == [f"learner died; another one waits, 10 minutes at most: {why}"]
    assert member.supervisor.is_recovering
    has_place.set()
    member.until(lambda: not member.supervisor.is_recovering, member.check)
    member.learn(20)
    assert len(member.said) == 2
    assert member.said[1].startswith("learner died: another one continues from ")
    assert member.counters["restarts/learner_died"] == 1, "each look counted as a death"


def test_a_stop_does_not_wait_for_a_place_and_without_one_in_time_the_run_ends(member, monkeypatch):
    member.supervisor.start()
    member.learn(5)
    without_a_place(member, monkeypatch)
    with pytest.raises(NoPlaceError, match="there is no place for another one"):
        member.supervisor.despite_deaths(lambda: None)
    monkeypatch.setattr(learner_recovery, "PLACE_DEADLINE_S", 0.0)
    with pytest.raises(NoPlaceError, match="no place for another one came within 0 s"):
        FreeSchedule([member.supervisor], lambda: False, lambda *_: None).run()


def test_a_learner_whose_new_node_is_lost_before_it_starts_is_placed_anew_without_another_death(member, monkeypatch):
    monkeypatch.setattr(learner_recovery, "_PLACE_INTERVAL_S", 0.0)
    member.supervisor.start()
    member.learn(20)
    member.save()
    member.kill(monkeypatch)
    worker, lost = member.topology.learner, NotPlacedError("learner has ended with its node")
    failure = worker.failure
    monkeypatch.setattr(worker, "failure", lambda: lost if worker.incarnation == 1 else failure())
    member.until(lambda: worker.incarnation == 2 and not member.supervisor.is_recovering, member.check)
    member.learn(20)
    assert member.counters["restarts/learner_died"] == 1
    assert len(member.said) == 1


def test_a_learner_that_dies_at_once_uses_the_budget_up(member, monkeypatch):
    most = member.plan.config.max_failures
    for number in range(most):
        member.kill(monkeypatch)
        member.until(lambda number=number: member.topology.learner.incarnation > number, member.check)
    member.kill(monkeypatch)
    with pytest.raises(WorkerDiedError, match="learner has ended"):
        member.check()
    assert member.counters["restarts/learner_died"] == most
    assert not member.counters["updates_lost/died"], "no learner learned anything"


def test_a_learner_that_dies_as_the_last_checkpoint_is_written_is_replaced_first(member, monkeypatch):
    member.supervisor.start()
    member.learn(5)
    member.save()
    member.learn(5)
    member.supervisor.stop("steps")
    member.kill(monkeypatch)
    path = member.supervisor.despite_deaths(member.save)
    assert path.exists()
    saved = read_newest(member.run, member.plan)
    assert saved.checkpoint.path == path
    assert saved.num_updates >= 5


def test_in_lockstep_a_dead_learner_ends_the_run(tmp_path, monkeypatch):
    runtime = LocalRuntime()
    monkeypatch.setattr(parts, "_NOTICE_S", 0.0)
    with Recorder() as recorder:
        member = Member(tmp_path / "run", recorder, runtime, schedule="lockstep")
        member.save()
        member.kill(monkeypatch)
        with pytest.raises(WorkerDiedError):
            member.check()
        with pytest.raises(PortClosedError):
            member.supervisor.despite_deaths(member.save)
        runtime.close()


def test_the_free_schedule_carries_a_run_over_the_death_of_its_learner(member, monkeypatch):
    schedule = FreeSchedule([member.supervisor], threading.Event().is_set, lambda *_: None)
    config = replace(member.plan.config, steps=6000)
    member.topology.member = replace(member.plan, config=config)
    thread = threading.Thread(target=schedule.run)
    thread.start()
    member.until(lambda: member.updates() > 5)
    member.kill(monkeypatch)
    thread.join(60.0)
    assert not thread.is_alive()
    assert member.supervisor.finished == "steps"
    assert member.counters["restarts/learner_died"] == 1
    assert member.counters["learner_steps"] > 0
