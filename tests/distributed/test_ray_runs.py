"""Whole runs on Ray: the same first batches as in one process, clean ends, and what happens when processes die."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from books import newest_totals
from hosted import NUM_BATCHES, RecordingRuntime, first_batches

from laser.ports import PortClosedError, wait
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.recording.recorder import Recorder
from launch.runtimes.local_runtime import LocalRuntime
from launch.runtimes.runtime import WorkerDiedError
from launch.supervision.ending import Ending
from launch.supervision.free import FreeSchedule
from launch.supervision.lockstep import LockstepSchedule
from launch.supervision.member_supervisor import MemberSupervisor
from launch.topology import place_member
from learner.checkpoint import list_checkpoints, load_newest_checkpoint
from learner.learner import Learner

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


def small(**changes):
    config = load_preset("cartpole")
    replay = dataclasses.replace(config.replay, capacity_steps=4000, min_steps=128, num_shards=changes.pop("shards", 1))
    values = {"steps": 600, "quiet": True, "num_envs": 4, "num_actors": 2, "runtime": "lockstep", **changes}
    return dataclasses.replace(config, replay=replay, **values)


def play(runtime, config):
    """Return the first batches and the last weights of a lockstep run, and how far it came."""
    with Recorder(in_turns=True) as recorder:
        topology = place_member(plan_member(config), RecordingRuntime(runtime), recorder)
        wait(topology.learner.call(Learner.warm_up), 120.0, "the learner")
        schedule = LockstepSchedule([MemberSupervisor(topology, recorder)], lambda: False, lambda *_: None)
        schedule.run()
        assert schedule.supervisors[0].finished == "steps"
        batches = wait(topology.learner.call(first_batches), 60.0, "the batches")
        newest = wait(topology.learner.call(Learner.newest), 60.0, "the weights")
        return batches, newest, recorder.snapshot()


@pytest.fixture
def local():
    runtime = LocalRuntime()
    yield runtime
    runtime.close()


@pytest.mark.parametrize("shards", [1, 2])
def test_ray_and_one_process_train_on_the_same_batches(runtime, local, shards):
    here = play(local, small(shards=shards, steps=1500))
    there = play(runtime, small(shards=shards, steps=1500, runtime="ray", schedule="lockstep"))
    assert len(here[0]) == len(there[0]) == NUM_BATCHES
    for one, other in zip(here[0], there[0], strict=True):
        assert set(one) == set(other)
        assert {"keys/0", "keys/1", "observations/observation", "mu/logits"} <= set(one)
        for name, value in one.items():
            assert value.dtype == other[name].dtype
            np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert here[2].learner_steps == there[2].learner_steps > NUM_BATCHES
    assert here[1].version == there[1].version
    np.testing.assert_array_equal(here[1].vector, there[1].vector)


def test_a_lockstep_run_on_ray_ends_where_a_worker_died_and_says_who(runtime):
    config = small(runtime="ray", schedule="lockstep", steps=1_000_000)
    with Recorder(in_turns=True) as recorder:
        topology = place_member(plan_member(config), runtime, recorder)
        wait(topology.learner.call(Learner.warm_up), 120.0, "the learner")
        killed = []

        def kill_later():
            if recorder.position().env_steps > 500 and not killed:
                killed.append(topology.actors[1].pid)
                os.kill(killed[0], signal.SIGKILL)
            return False

        schedule = LockstepSchedule([MemberSupervisor(topology, recorder)], kill_later, lambda *_: None)
        with pytest.raises(PortClosedError, match="actor/1 has ended"):
            schedule.run()
        assert schedule.supervisors[0].finished is Ending.FAILED
        assert topology.actors[1].incarnation == 0, "it was replaced, which cannot repeat bit by bit"


def test_the_comparison_can_tell_another_seed(local):
    other = LocalRuntime()
    one, two = play(local, small()), play(other, small(seed=1))
    other.close()
    assert not np.array_equal(one[0][0]["observations/observation"], two[0][0]["observations/observation"])
    assert not np.array_equal(one[1].vector, two[1].vector)


def test_a_killed_actor_is_replaced_and_a_learner_that_may_not_die_ends_the_run(runtime):
    config = small(runtime="ray", shards=2, steps=1_000_000)
    with Recorder() as recorder:
        topology = place_member(plan_member(config), runtime, recorder)
        wait(topology.learner.call(Learner.warm_up), 120.0, "the learner")
        stop = threading.Event()
        schedule = FreeSchedule([MemberSupervisor(topology, recorder)], stop.is_set, lambda *_: None)
        finished, failed = [], []

        def run():
            try:
                schedule.run()
                finished.append(schedule.supervisors[0].finished)
            except PortClosedError as error:
                failed.append(error)

        def go_on_for(env_steps):
            goal, deadline = recorder.snapshot().env_steps + env_steps, time.monotonic() + 60.0
            while recorder.snapshot().env_steps < goal:
                assert not failed, failed
                assert time.monotonic() < deadline, "the run does not go on"
                time.sleep(0.05)

        thread = threading.Thread(target=run)
        thread.start()
        go_on_for(1000)
        victim = topology.actors[0]
        os.kill(victim.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30.0
        while not recorder.snapshot().counters.get("restarts/died"):
            assert time.monotonic() < deadline, "the death was not noticed"
            time.sleep(0.05)
        # The new one plays on at the shard of the old one, which is its own.
        before = num_inserted(topology)
        while num_inserted(topology)[0] <= before[0] + 20:
            go_on_for(100)
            assert time.monotonic() < deadline + 60.0, "the new actor does not play"
        assert num_inserted(topology)[1] > before[1]
        assert victim.incarnation == 1
        assert recorder.snapshot().counters["restarts/died"] == 1.0
        stop.set()
        thread.join(60.0)
        assert finished == ["stopped"]
        stats = wait(topology.replay.stats(), 30.0, "stats")
        assert not any(stats.imbalances.values())
        assert stats.ledger.lost == stats.ledger.duplicates == 0
        assert stats.waiting_unrolls == 0
        assert_adds_up(recorder.snapshot().counters, stats.ledger.received)

        stop.clear()
        topology = place_member(plan_member(dataclasses.replace(config, max_failures=0)), runtime, recorder)
        wait(topology.learner.call(Learner.warm_up), 120.0, "the learner")
        schedule = FreeSchedule([MemberSupervisor(topology, recorder)], stop.is_set, lambda *_: None)
        thread = threading.Thread(target=run)
        thread.start()
        go_on_for(500)
        os.kill(topology.learner.pid, signal.SIGKILL)
        thread.join(60.0)
        assert not thread.is_alive()
        (error,) = failed
        assert isinstance(error, WorkerDiedError)
        assert str(error).startswith("learner has ended")


def assert_adds_up(totals, received):
    """Assert that every unroll that an actor reported has arrived or is counted as lost, and the reverse."""
    made = totals["unrolls"] + totals["unrolls_unreported/died"]
    assert made == received + totals["unrolls_lost/died"]


def num_inserted(topology):
    return [part.ledger.inserted for part in wait(topology.replay.stats(), 30.0, "stats").shards]


def start(run_dir, steps, *more):
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--runtime", "ray", "--run-dir", str(run_dir)]
    options = ["--steps", str(steps), "--num-actors", "2", "--replay.num-shards", "2", "--quiet", "--json"]
    return subprocess.Popen([*command, *options, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def processes_of(parent):
    try:
        return {child.pid: child.create_time() for child in psutil.Process(parent.pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return {}


def assert_gone(seen):
    deadline = time.monotonic() + 10.0

    def living():
        return [pid for pid, created in seen.items() if psutil.pid_exists(pid) and _created(pid) == created]

    while living():
        assert time.monotonic() < deadline, f"left behind: {living()}"
        time.sleep(0.1)


def _created(pid):
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def await_log(run_dir, word):
    deadline = time.monotonic() + 90.0
    log = run_dir / "log.txt"
    while not (log.exists() and word in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def session_folders(pid="*"):
    return (Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray").glob(f"session_*_{pid}")


@pytest.mark.usefixtures("runtime")  # another Ray on the machine, which must be left alone
def test_a_run_from_the_command_line_ends_cleanly(tmp_path):
    process, seen, sessions = start(tmp_path / "run", 3000), {}, set()
    while process.poll() is None:
        seen |= processes_of(process)
        sessions |= set(session_folders(process.pid))
        time.sleep(0.2)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    result = json.loads(output.splitlines()[-1])
    assert result["finished"] == "steps"
    assert result["env_steps"] >= 3000
    assert result["learner_steps"] > 5
    assert result["episodes"] > 5
    assert list_checkpoints(tmp_path / "run" / "checkpoints")
    assert len(sessions) == 1, "the run left its name nowhere, so nothing was tested"
    assert not list(session_folders(process.pid))
    assert list(session_folders(os.getpid())), "another Ray's folder is gone"
    assert len(seen) > 7, "two shards, two actors, a learner, a store and Ray's own"
    assert_gone(seen)


@pytest.mark.long
@pytest.mark.usefixtures("runtime")
def test_a_signal_saves_the_run_and_a_shard_that_may_not_die_ends_it_with_one_line(tmp_path):
    stopped = start(tmp_path / "stopped", 10_000_000)
    broken = start(tmp_path / "broken", 10_000_000, "--max-failures", "0")
    await_log(tmp_path / "stopped", "running")
    await_log(tmp_path / "broken", "running")
    await_statistics(tmp_path / "broken")
    seen = processes_of(stopped) | processes_of(broken)
    shards = hosts_of(broken, "_ShardHost")
    assert len(shards) == 2
    shards[1].send_signal(signal.SIGKILL)
    stopped.send_signal(signal.SIGTERM)
    _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode == 143, errors
    assert list_checkpoints(tmp_path / "stopped" / "checkpoints")
    output, errors = broken.communicate(timeout=60)
    assert not output
    assert broken.returncode == 1, errors
    lines = errors.strip().splitlines()
    assert len(lines) == 1, errors
    assert re.match(r"error: runtime: shard \d of the replay \(process \d+\) has ended: ", lines[0]), errors
    assert_gone(seen)
    totals = newest_totals(tmp_path / "broken")
    assert totals["shards_lost"] == 1.0
    assert totals["unrolls_lost/shard"] > 0.0


def test_a_signal_while_ray_starts_ends_the_run_with_its_own_line(tmp_path):
    run, deadline = start(tmp_path / "run", 10_000_000), time.monotonic() + 60.0
    while not list(session_folders(run.pid)):  # Ray has begun, and goes on for a second or more
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, "Ray has not begun to start"
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    output, errors = run.communicate(timeout=120)
    assert run.returncode == 143, errors
    assert not output
    assert errors.splitlines()[-1] == "stopped: by SIGTERM; nothing was trained yet; start it again", errors
    assert not list(session_folders(run.pid))


def test_a_closed_terminal_saves_the_run_and_leaves_nothing_behind(tmp_path):
    run = start(tmp_path / "run", 10_000_000)
    await_log(tmp_path / "run", "running")
    await_statistics(tmp_path / "run")
    seen = processes_of(run)
    run.send_signal(signal.SIGHUP)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 129, errors
    assert not output
    *waits, last = filter(None, errors.splitlines())
    assert not [line for line in waits if not line.startswith(("waiting for ", "stopping after a checkpoint"))], errors
    assert last.startswith("stopped: by SIGHUP; saved at "), errors
    assert list_checkpoints(tmp_path / "run" / "checkpoints")
    assert newest_totals(tmp_path / "run")["ledger/imbalance/received"] == 0.0
    assert_gone(seen)
    assert not list(session_folders(run.pid))


def await_statistics(run_dir):
    """Wait until both shards have been seen with unrolls in them: those of a dead one count as it was last seen."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        if (run_dir / "metrics.db").exists() and newest_totals(run_dir).get("ledger/stored", 0.0) > 100:
            return
        time.sleep(0.1)
    raise AssertionError("no statistics of the replay after 60 s")


def hosts_of(run, kind):
    children = psutil.Process(run.pid).children(recursive=True)
    return [child for child in children if "".join(child.cmdline()).startswith(f"ray::{kind}")]


DEADLY = """
import os
import signal

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Deadly(CartPoleEnv):
    num_steps = 0

    def step(self, action):
        Deadly.num_steps += 1
        if Deadly.num_steps > 2000:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)

gymnasium.register("Deadly-v0", Deadly)
"""


@pytest.mark.slow
def test_a_run_that_fails_with_an_actor_has_its_accounts_written_before_the_end(tmp_path, monkeypatch):
    (tmp_path / "deadly_environment.py").write_text(DEADLY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    options = ["--env", "deadly_environment:Deadly-v0", "--max-failures", "0"]
    run = start(tmp_path / "run", 10_000_000, *options)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 1, errors
    totals = newest_totals(tmp_path / "run")
    assert totals["dropped_rows_at_most/died"] > 0.0
    assert totals["ledger/waiting"] == 0.0
    assert [totals[f"ledger/imbalance/{name}"] for name in ("received", "inserted", "online")] == [0.0] * 3
    assert_adds_up(totals, totals["ledger/received"])


@pytest.mark.long
@pytest.mark.slow
def test_a_lockstep_run_resumed_on_ray_equals_a_whole_one_in_one_process(tmp_path):
    def run(name, steps, *words):
        command = [sys.executable, "-m", "launch", "train", "cartpole", "--steps", str(steps), "--num-actors", "2"]
        command += ["--num-envs", "4", "--replay.num-shards", "2", "--replay.min-steps", "128", "--checkpoint-replay"]
        command += ["--quiet", "--stop-at-return", "inf", "--run-dir", str(tmp_path / name), *words]
        subprocess.run(command, check=True, timeout=120, cwd=tmp_path)

    run("whole", 1600)
    for steps, words in ((800, ()), (1600, ("--resume",))):
        run("parts", steps, "--runtime", "ray", "--schedule", "lockstep", *words)
    whole, parts = (load_newest_checkpoint(tmp_path / name / "checkpoints")[0].tensors for name in ("whole", "parts"))
    assert {group: set(part) for group, part in whole.items()} == {group: set(part) for group, part in parts.items()}
    for group, part in whole.items():
        for name, value in part.items():
            assert torch.equal(value, parts[group][name]), f"{group}/{name}"
