"""Ray's own head is killed during a run: one line within seconds, a checkpoint, and nothing left behind."""

import subprocess
import sys
import time

import psutil
import pytest

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


def test_a_killed_head_ends_the_run_with_one_line_and_leaves_nothing_behind(tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--runtime", "ray", "--steps", "10000000"]
    command += ["--stop-at-return", "inf", "--num-envs", "2", "--learner.checkpoint-interval-s", "2", "--quiet"]
    with subprocess.Popen([*command, "--run-dir", str(run)], stderr=subprocess.PIPE, text=True) as training:
        until(lambda: list(run.glob("checkpoints/0*")), 120.0, "there is no checkpoint")
        children = psutil.Process(training.pid).children(recursive=True)
        (head,) = [child for child in children if child.name() == "gcs_server"]
        session = next(word for word in head.cmdline() if "session_" in word).partition("session_")[2].partition("/")[0]
        head.kill()
        killed_at = time.monotonic()
        _, said = training.communicate(timeout=120)
        assert time.monotonic() - killed_at < 50.0  # Ray itself ends the process after a minute
    assert training.returncode == 1
    *waits, last = said.splitlines()
    assert not [line for line in waits if not line.startswith("waiting for ")]
    assert last.startswith("error: runtime: Ray's gcs_server was ended by signal 9")
    assert f"--resume --run-dir {run} continues from its last checkpoint" in last
    until(lambda: not any(map(is_alive, children)), 20.0, "processes are left behind")
    commands = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    assert not [words for words in commands if any(session in word for word in words)]
