"""An environment that changes the working directory of the process: the files of a run stay found."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import laser
from launch.commands import program_path
from launch.errors import OutputError, StoppedError
from launch.records.run_directory import open_run
from launch.start_directory import as_typed, located, paths_from_here
from learner.checkpoint import list_checkpoints


class Moving(CartPoleEnv):
    """Goes elsewhere at every reset, the first look at the environment included."""

    def reset(self, **arguments):
        os.chdir("/")
        return super().reset(**arguments)


FEW = {"env": Moving, "steps": 300, "num_envs": 2, "replay.min_steps": 64, "stop_at_return": float("inf")}
FEW |= {"runtime": "lockstep", "learner.compile": "off", "learner.checkpoint_interval_s": 0.001}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Stopping(laser.Callback):
    has_stopped = False

    def on_checkpoint(self, run, path):
        assert not path.is_absolute(), "as before"
        if not self.has_stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        self.has_stopped = True


def test_a_run_with_a_relative_directory_is_trained_to_its_end_and_resumed(here, capsys):
    config = laser.load_preset("cartpole", {**FEW, "run_dir": Path("o1")})
    with pytest.raises(StoppedError, match=r"to continue: .*laser train --resume --run-dir o1$"):
        laser.train(config, callbacks=[Stopping()])
    assert Path.cwd() == Path("/")
    os.chdir(here)
    result = laser.train(laser.load_preset("cartpole", {**FEW, "run_dir": Path("o1"), "resume": True}))
    assert (result.finished, result.run_dir) == ("steps", Path("o1"))
    assert list_checkpoints(here / "o1" / "checkpoints")
    assert json.loads((here / "o1" / "config.json").read_text())["config"]["run_dir"] == "o1"
    said = capsys.readouterr().err
    assert "training in o1 on" in said
    assert "all files are in o1;" in said
    assert str(here) not in said + (here / "o1" / "log.txt").read_text()


def test_a_sweep_and_a_run_without_a_name_lie_where_they_began(here):
    config = laser.load_preset("cartpole", {**FEW, "run_dir": Path("swept"), "quiet": True})
    laser.sweep(laser.SweepConfig(config, {"algorithm.learning-rate": [1e-3, 1e-4]}))
    assert len(list(here.glob("swept/members/*/checkpoints/0*"))) >= 2
    os.chdir(here)
    result = laser.train(laser.load_preset("cartpole", {**FEW, "quiet": True}))
    assert not result.run_dir.is_absolute()
    assert (here / result.run_dir / "config.json").exists()


def test_messages_name_paths_as_they_were_typed(here):
    config = laser.load_preset("cartpole", {"run_dir": Path("o1")})
    with paths_from_here(), open_run(config) as run:
        os.chdir("/")
        (here / "o1" / "metrics.db").touch()
        assert run.find_gone() is None
        (here / "o1" / "config.json").rename(here / "o1" / "elsewhere")
        assert run.find_gone().wrong.startswith(f"{here}/o1/config.json was deleted")
        error = OutputError("run-dir", f"{here}/o1/metrics.db: full", f"see '{here}/o1'")
        assert str(error) == "run-dir: o1/metrics.db: full; see 'o1'"
        assert as_typed(f"{here}/o12 and {here}/o1-2") == f"{here}/o12 and {here}/o1-2"
    assert located(Path("o1")) == Path("o1"), "outside of a run nothing changes"


def test_a_working_directory_that_was_deleted_does_no_harm(here):
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    with paths_from_here():
        assert located(here / "o1") == here / "o1"
        assert program_path("laser").endswith("laser")
    os.chdir(here)


def test_the_advised_program_is_relative_to_where_the_run_began(here, monkeypatch):
    (here / "bin").mkdir()
    (here / "bin" / "laser").touch()
    monkeypatch.setattr("sys.executable", str(here / "bin" / "python"))
    monkeypatch.setenv("PATH", "")
    with paths_from_here():
        os.chdir("/")
        assert program_path("laser") == "bin/laser"
