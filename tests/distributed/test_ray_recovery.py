"""Runs on Ray whose processes are killed: they go on, and every unroll is accounted for."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import signal
import threading
import time
from functools import partial

import pytest

from laser.ports import PortClosedError, wait
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import read_newest, save_member
from launch.supervision.free import FreeSchedule
from launch.supervision.member_supervisor import MemberSupervisor
from launch.topology import place_member
from learner.checkpoint import list_checkpoints
from learner.learner import Learner

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]

DEADLINE_S = 120.0


class Run:
    """A run in a thread, with checkpoints, whose processes a test kills."""

    def __init__(self, runtime, path, recorder, shards=2, checkpoint_interval_s=1.0, **changes):
        config = load_preset("cartpole")
        replay = dataclasses.replace(config.replay, capacity_steps=4000, min_steps=128, num_shards=shards)
        learner = dataclasses.replace(config.learner, checkpoint_interval_s=checkpoint_interval_s)
        # Without a goal: a solved run would end before its processes are killed.
        values = {
            "steps": 10_000_000,
            "stop_at_return": math.inf,
            "quiet": True,
            "num_envs": 4,
            "num_actors": 2,
            "runtime": "ray",
            **changes,
        }
        self.config = dataclasses.replace(config, replay=replay, learner=learner, **values)
        self.plan = plan_member(self.config)
        self.directory, self.recorder, self.said = RunDirectory(path, resumed=False), recorder, []
        self.topology = place_member(self.plan, runtime, recorder)
        wait(self.topology.learner.call(Learner.warm_up), 120.0, "the learner")
        self.newest = partial(read_newest, self.directory, self.plan)
        self.supervisor = MemberSupervisor(self.topology, recorder, newest=self.newest, say=self.hear)
        self._stop, self.errors = threading.Event(), []
        self._schedule = FreeSchedule([self.supervisor], self._stop.is_set, self.save)
        self._thread = threading.Thread(target=self._train)
        recorder.begin()
        self._thread.start()

    def hear(self, line):
        if not line.startswith("first 100 updates: "):  # of every run
            self.said.append(line)

    def save(self, supervisor, snapshot):
        save_member(self.directory, self.topology, self.recorder, snapshot, supervisor.parts.replay.accounts)

    def _train(self):
        try:
            self._schedule.run()
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            self.errors.append(error)

    @property
    def counters(self):
        return self.recorder.snapshot().counters

    def until(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            failures = [(worker.name, worker.incarnation) for worker in self.topology.workers]
            assert not self.errors, (self.errors, failures, self.said)
            assert time.monotonic() < deadline, (what, self.supervisor.finished, failures, self.said, self.counters)
            time.sleep(0.05)

    def has_saved_updates(self):
        """Whether a checkpoint has updates that the learner had reported by then."""
        saved = self.newest()
        return saved is not None and saved.recorder["last"].get("learner", {}).get("learner_steps", 0.0) > 0

    def learn(self, num_updates):
        """Go on until the learner has made more updates."""
        goal = self.counters.get("learner_steps", 0.0) + num_updates
        self.until(lambda: self.counters.get("learner_steps", 0.0) >= goal, f"{num_updates} updates")

    def stop(self):
        """Stop, if it has not ended yet."""
        self._stop.set()
        self._thread.join(DEADLINE_S)

    def end(self):
        """Stop, and check that every unroll is accounted for; return the counters and the replay's statistics."""
        self.stop()
        assert not self._thread.is_alive()
        assert not self.errors, self.errors
        counters, stats = self.counters, wait(self.topology.replay.stats(), 30.0, "statistics")
        ledger = stats.ledger
        of = {
            name: sum(n for key, n in counters.items() if key.startswith(name)) for name in ("unrolls_un", "unrolls_lo")
        }
        lost = of["unrolls_lo"] - counters.get("unrolls_lost/shard", 0.0)  # those had arrived
        arrived = ledger.inserted + ledger.rejected.total() + ledger.failed.total() + ledger.lost
        assert counters["unrolls"] + of["unrolls_un"] == arrived + lost, (counters, ledger)
        assert not any(stats.imbalances.values()), stats.imbalances
        assert ledger.duplicates == ledger.lost == ledger.rejected.total() == 0
        assert ledger.inserted == stats.num_unrolls + ledger.removed + ledger.not_saved + ledger.died
        return counters, stats


@pytest.fixture
def start(runtime, tmp_path):
    runs = []

    def begin(**options):
        runs.append(Run(runtime, tmp_path / "run", recorder, **options))
        return runs[-1]

    with Recorder() as recorder:
        yield begin
        for run in runs:  # a test that fails leaves it at work, and Ray with it
            run.stop()


def version(run):
    return wait(run.topology.parameters.newest_version(), 30.0, "the newest version")


def test_a_killed_learner_is_replaced_by_one_that_continues_from_its_newest_state(start):
    # A vector of this size stays with the learner's process and ends with it, so that the new actor finds none to read.
    run = start(network=dataclasses.replace(load_preset("cartpole").network, hidden_sizes=(256, 256)))
    run.learn(50)
    run.until(run.has_saved_updates, "a checkpoint")
    before = version(run)
    os.kill(run.topology.learner.pid, signal.SIGKILL)
    os.kill(run.topology.actors[0].pid, signal.SIGKILL)
    run.until(lambda: run.said, "the death to be noticed")
    kept = run.counters["learner_steps"]
    run.learn(50)
    assert version(run) > before
    counters, _ = run.end()
    assert run.supervisor.finished == "stopped"
    assert run.topology.learner.incarnation == 1
    assert counters["restarts/learner_died"] == 1
    (line,) = run.said
    assert re.match(r"learner died: another one continues from (update \d|0)", line), line
    assert f"{counters['updates_lost/died']:.0f} updates are lost" in line
    assert kept > 0, "it began anew although there is a checkpoint"
    assert not run.topology.evaluator.has_begun, "nothing was evaluated"
    assert [actor.incarnation for actor in run.topology.actors] == [1, 0], "the other actor did not go on"


def test_a_killed_store_gets_the_newest_parameters_from_the_learner(start):
    run = start()
    run.learn(20)
    before = version(run)
    os.kill(run.topology.parameters.pid, signal.SIGKILL)
    run.until(lambda: run.said, "the death to be noticed")
    run.learn(20)
    assert version(run) >= before
    counters, _ = run.end()
    assert counters["restarts/store_died"] == 1
    assert run.said == ["the parameter store died: another one gets the parameters from the learner"]
    assert not any(worker.incarnation for worker in run.topology.workers)


@pytest.mark.parametrize(
    ("shards", "saves_replay"),
    [(2, True), *(pytest.param(*each, marks=pytest.mark.long) for each in ((2, False), (1, False)))],
)
def test_a_killed_shard_begins_again_and_is_drawn_from(start, shards, saves_replay):
    # A part that is newer than the last statistics is not taken up; the next one is far away when these are read.
    run = start(shards=shards, checkpoint_replay=saves_replay, checkpoint_interval_s=10.0)
    run.until(lambda: list_checkpoints(run.directory.checkpoints_path), "a checkpoint")
    run.learn(50)
    port = run.topology.shards[-1]
    time.sleep(2.5)  # its statistics have been read
    os.kill(port.pid, signal.SIGKILL)
    run.until(lambda: run.said, "the death to be noticed")
    run.learn(50)
    (sampled,) = {wait(port.stats(), 30.0, "statistics").ledger.sampled}
    run.until(lambda: wait(port.stats(), 30.0, "statistics").ledger.sampled > sampled, "draws from the new shard")
    run.learn(20)
    counters, stats = run.end()
    assert counters["restarts/shard_died"] == counters["shards_lost"] == 1
    assert counters["restarts/shard_lost"] >= 1
    assert counters["unrolls_lost/shard"] == stats.ledger.died > 0
    how = "continues from 0" if saves_replay else "begins empty"
    (line,) = run.said
    assert line.startswith(f"shard {shards - 1} of the replay died: another one {how}"), line
    assert not run.topology.learner.incarnation


def test_when_all_shards_are_killed_others_begin_and_are_drawn_from(start):
    run = start(shards=2, checkpoint_interval_s=10.0)
    run.until(lambda: list_checkpoints(run.directory.checkpoints_path), "a checkpoint")
    run.learn(50)
    time.sleep(2.5)  # their statistics have been read
    pids = [port.pid for port in run.topology.shards]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    run.until(lambda: run.counters.get("restarts/shard_died", 0.0) == 2.0, "both deaths to be noticed")
    run.learn(50)
    assert not {port.pid for port in run.topology.shards} & set(pids)
    counters, stats = run.end()
    assert counters["shards_lost"] == 2
    assert counters["unrolls_lost/shard"] == stats.ledger.died > 0
    assert all(part.ledger.sampled > 0 for part in stats.shards)
    assert sorted(line.partition(" of the replay")[0] for line in run.said) == ["shard 0", "shard 1"], run.said
    assert all(": another one begins empty" in line for line in run.said), run.said
    assert not run.topology.learner.incarnation


def test_a_killed_evaluator_is_replaced_and_evaluates_again(start):
    evaluation = dataclasses.replace(load_preset("cartpole").evaluation, interval=500, episodes=1)
    run = start(evaluation=evaluation)

    def evaluated_at():
        newest = run.recorder.state_dict()["newest_evaluation"]
        return -1 if newest is None else newest[0]

    run.until(lambda: evaluated_at() >= 0, "an evaluation")
    os.kill(run.topology.evaluator.pid, signal.SIGKILL)
    run.until(lambda: run.topology.evaluator.incarnation == 1, "the death to be noticed")
    before = run.recorder.position().env_steps
    run.until(lambda: evaluated_at() > before, "another evaluation")
    counters, _ = run.end()
    assert counters["restarts/died"] == 1
    assert counters.get("evaluations_failed/evaluator_died", 0.0) <= 1
    assert not any(worker.incarnation for worker in (*run.topology.actors, run.topology.learner))


def test_a_part_that_may_not_fail_ends_the_run_with_its_own_words(start):
    run = start(max_failures=0)
    run.learn(10)
    os.kill(run.topology.shards[1].pid, signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while not run.errors:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (error,) = run.errors
    assert isinstance(error, PortClosedError)
    assert "shard 1 of the replay (process" in str(error)
    assert "has ended" in str(error)
