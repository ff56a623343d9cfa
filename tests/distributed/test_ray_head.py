"""Ray's head or raylet, or the driver, is killed, or the run renamed: one line at most, and nothing is left behind."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from launch.commands import resume_command

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def is_alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def training(tmp_path):
    """A run with a checkpoint, its directory, its processes, and the directory of its session."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--runtime", "ray", "--steps", "10000000"]
    command += ["--stop-at-return", "inf", "--num-envs", "2", "--learner.checkpoint-interval-s", "2", "--quiet"]
    with subprocess.Popen([*command, "--run-dir", str(run)], stderr=subprocess.PIPE, text=True) as training:
        until(lambda: list(run.glob("checkpoints/0*")), 120.0, "there is no checkpoint")
        children = psutil.Process(training.pid).children(recursive=True)
        (head,) = [child for child in children if child.name() == "gcs_server"]
        session = next(word for word in head.cmdline() if "/session_" in word).partition("=")[2].partition("/logs")[0]
        yield training, run, children, Path(session)


def assert_nothing_left(children, session):
    until(lambda: not any(map(is_alive, children)), 30.0, "processes are left behind")
    until(lambda: not session.exists(), 20.0, "files are left behind")
    commands = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    assert not [words for words in commands if any(session.name in word for word in words)]


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_a_killed_process_of_ray_ends_the_run_with_one_line_and_leaves_nothing_behind(training, name):
    process, run, children, session = training
    assert session.is_dir()
    (victim,) = [child for child in children if child.name() == name]
    victim.kill()
    killed_at = time.monotonic()
    _, said = process.communicate(timeout=120)
    assert time.monotonic() - killed_at < 50.0  # Ray itself ends the process after a minute
    assert process.returncode == 69, said
    *waits, last = said.splitlines()
    assert not [line for line in waits if not line.startswith("waiting for ")], said
    assert last.startswith(f"error: runtime: Ray's {name} was ended by signal 9"), said
    assert f"; to continue from the last checkpoint: {resume_command(run)}" in last
    assert_nothing_left(children, session)


def test_a_killed_driver_leaves_nothing_behind(training):
    process, _, children, session = training
    assert session.is_dir()
    process.kill()
    process.communicate(timeout=30)
    assert_nothing_left(children, session)


@pytest.mark.slow
def test_a_renamed_directory_ends_the_run_with_one_line_and_leaves_nothing_behind(training):
    process, run, children, session = training
    moved = run.rename(run.with_name("moved"))
    _, said = process.communicate(timeout=120)
    assert process.returncode == 74, said
    *waits, last = said.splitlines()
    assert not [line for line in waits if not line.startswith("waiting for ")], said
    assert last.startswith(f"error: run-dir: {run} was moved to {moved}; {moved}/checkpoints/"), said
    assert last.endswith(f" is safe; to continue from it: {resume_command(moved)}"), said
    assert not run.exists(), "it was made anew"
    assert_nothing_left(children, session)
