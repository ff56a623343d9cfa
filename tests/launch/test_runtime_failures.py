"""A runtime whose own processes end, as Ray's may: one line, a checkpoint where there is something to save."""

import functools
import itertools
import re
import time

import pytest

import laser
from actors.actor import Actor
from laser.ports import NodeLostError
from launch.commands import resume_command
from launch.errors import RuntimeFailedError
from launch.runtimes import hangs
from launch.runtimes.local_runtime import LocalRuntime
from learner.checkpoint import load_newest_checkpoint

SMALL = {"steps": 100_000, "num_envs": 1, "replay.min_steps": 64, "replay.capacity_steps": 2000, "quiet": True}


RAYLET = RuntimeFailedError("runtime", "Ray's raylet ended", "start again")


def fail_at(monkeypatch, num_checks, error=RAYLET):
    """Lets the runtime fail when it is looked at for the given time."""
    checks = itertools.count(1)

    def check(self):
        if next(checks) >= num_checks:
            raise error

    monkeypatch.setattr(LocalRuntime, "check", check)


@pytest.mark.parametrize("runtime", ["local", "lockstep"])
def test_a_run_whose_runtime_fails_is_saved_and_says_how_to_go_on(tmp_path, monkeypatch, runtime):
    fail_at(monkeypatch, 200 if runtime == "lockstep" else 20)
    run = tmp_path / "run"
    config = laser.load_preset("cartpole", {**SMALL, "run_dir": run, "runtime": runtime})
    with pytest.raises(
        RuntimeFailedError, match=rf"Ray's raylet ended; start again; .*: {re.escape(resume_command(run))}$"
    ):
        laser.train(config)
    checkpoint, _ = load_newest_checkpoint(run / "checkpoints")
    assert checkpoint.step > 0
    assert "failed: RuntimeFailedError: runtime: Ray's raylet ended" in (run / "log.txt").read_text()


def test_a_run_that_ends_with_a_node_fails_as_its_runtime_does(tmp_path, monkeypatch):
    fail_at(monkeypatch, 20, NodeLostError("shard 1 of the replay has ended with its node"))
    config = laser.load_preset("cartpole", {**SMALL, "run_dir": tmp_path / "run"})
    with pytest.raises(RuntimeFailedError, match=r"shard 1 .* with its node; start it again .* to continue"):
        laser.train(config)


def test_a_runtime_that_fails_during_the_start_leaves_no_directory(tmp_path, monkeypatch):
    fail_at(monkeypatch, 1)
    monkeypatch.setattr(hangs, "_CHECK_S", 0.001)
    warm_up = Actor.warm_up

    @functools.wraps(warm_up)  # hosts call a method by its name
    def slow(self):  # slower than the first look at the runtime
        time.sleep(0.3)
        warm_up(self)

    monkeypatch.setattr(Actor, "warm_up", slow)
    config = laser.load_preset("cartpole", {**SMALL, "run_dir": tmp_path / "run"})
    with pytest.raises(RuntimeFailedError, match=r"Ray's raylet ended; start again$"):
        laser.train(config)
    assert not (tmp_path / "run").exists()
