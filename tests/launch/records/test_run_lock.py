"""The lock of a run's directory and processes that were forked while it was held."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.errors import RunInUseError
from launch.records import run_lock
from launch.records.run_lock import locked

# Holds the lock, forks in C, where Python does not notice, and ends; the child goes on.
FORKS_IN_C = """
import ctypes, os, sys
from pathlib import Path
from launch.records.run_lock import locked

c = ctypes.CDLL(None)
with locked(Path(sys.argv[1]), ""):
    child = c.fork()
    if child == 0:
        c.close(1)
        c.close(2)
        c.sleep(60)
        os._exit(0)
    print(child, flush=True)
    if len(sys.argv) > 2:
        input()
"""


def take(path: Path) -> None:
    with locked(path, ""):
        pass


def is_locked(path: Path) -> bool:
    with (path / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.fixture
def children():
    found: list[int] = []
    yield found
    for child in found:
        os.kill(child, signal.SIGKILL)


def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    reading, writing = os.pipe()
    with locked(tmp_path, ""):
        child = os.fork()
        if child == 0:
            os.write(writing, b"x")
            time.sleep(60.0)
            os._exit(0)
        assert os.read(reading, 1) == b"x"
    try:
        assert not is_locked(tmp_path)
        take(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_forked_process_does_not_end_the_lock_either(tmp_path):
    with locked(tmp_path, ""):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert is_locked(tmp_path)
        with pytest.raises(RunInUseError, match=f"in use by process {os.getpid()};"):
            take(tmp_path)
    take(tmp_path)


def test_a_lock_that_only_a_child_of_the_dead_keeps_is_stale(tmp_path, children):
    ended = subprocess.run(
        [sys.executable, "-c", FORKS_IN_C, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    children.append(int(ended.stdout))
    assert is_locked(tmp_path), "the test shows nothing"
    with locked(tmp_path, ""), pytest.raises(RunInUseError, match=f"in use by process {os.getpid()};"):
        take(tmp_path)  # the new lock is a whole one
    take(tmp_path)


def test_a_lock_whose_owner_lives_is_never_stale(tmp_path, children):
    command = [sys.executable, "-c", FORKS_IN_C, str(tmp_path), "stay"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as owner:
        assert owner.stdout is not None
        children.append(int(owner.stdout.readline()))
        with pytest.raises(RunInUseError, match=f"in use by process {owner.pid};"):
            take(tmp_path)
        assert owner.stdin is not None
        owner.stdin.close()  # it ends with an error
        assert owner.wait(timeout=30) == 1
    take(tmp_path)


@pytest.mark.parametrize(
    ("owner", "is_stale"),
    [
        ("{dead} {start} {place}", True),
        ("{alive} 1 {place}", True),  # a later process with the same id
        ("{own} {start} {place}", True),  # this process held it before
        ("{alive} {start} {place}", False),
        ("{alive} unknown {place}", False),
        ("{dead} {start} elsewhere", False),  # another machine or container counts its processes anew
        ("{dead}", False),  # as earlier versions wrote it
        ("", False),
        ("nobody {start} {place}", False),
    ],
)
def test_who_owns_a_lock_that_is_held_decides(tmp_path, owner, is_stale):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    alive = os.getppid()
    words = {"dead": ended.pid, "alive": alive, "own": os.getpid()}
    words |= {"start": run_lock._start_of(alive), "place": run_lock._place()}
    with (tmp_path / "lock").open("w") as file:
        file.write(owner.format(**words))
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        if is_stale:
            take(tmp_path)
            return
        with pytest.raises(RunInUseError, match="wait for it, or choose another --run-dir"):
            take(tmp_path)


def test_a_process_that_has_ended_and_was_not_waited_for_has_ended():
    child = os.fork()
    if child == 0:
        os._exit(0)
    deadline = time.monotonic() + 10.0
    while run_lock._start_of(child) != "ended" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert run_lock._start_of(child) == "ended"
    os.waitpid(child, 0)
    assert run_lock._start_of(child) == "unknown"
