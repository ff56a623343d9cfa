"""The end of a Ray session's processes and files, with stand-ins for Ray's."""

import os
import subprocess
import sys
import time

import pytest

from launch.runtimes.ray_session import Guard, end_processes, remove

SLEEP = "import time; time.sleep(60)"
DRIVER = """
import os, sys
from pathlib import Path
from launch.runtimes.ray_session import Guard
guard = Guard(Path(sys.argv[1]))
print(guard._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def session(tmp_path):
    path = tmp_path / "ray" / "session_2026-01-01_1"
    (path / "logs").mkdir(parents=True)
    (path / "logs" / "x.out").write_text("x")
    (path.parent / "session_latest").symlink_to(path)
    return path


@pytest.fixture
def started():
    """Starts processes and ends those that are left."""
    processes = []

    def start(*command):
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def gone(path, seconds=20.0):
    deadline = time.monotonic() + seconds
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not path.exists()


def test_all_processes_of_a_session_end_and_no_others(session, started, tmp_path):
    raylet = started(sys.executable, "-c", SLEEP, f"--session-dir={session}")
    agent = started("bash", "-c", f"exec -a ray::Agent sleep 60 > {session}/logs/agent.out")
    reader = started("bash", "-c", f"exec -a viewer sleep 60 > {session}/logs/seen.out")
    other = started(sys.executable, "-c", SLEEP, f"--session-dir={tmp_path}/ray/session_other")
    deadline = time.monotonic() + 10.0
    while not (session / "logs" / "seen.out").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    end_processes(session)
    assert raylet.wait(10.0) == -9
    assert agent.wait(10.0) == -9
    assert reader.poll() is None, "somebody who reads the logs"
    assert other.poll() is None
    remove(session)
    assert not session.exists()
    assert not (session.parent / "session_latest").is_symlink()


def test_a_session_ends_with_the_process_that_began_it_however_that_ends(session, started):
    raylet = started(sys.executable, "-c", SLEEP, f"--session-dir={session}")
    driver = subprocess.run([sys.executable, "-c", DRIVER, str(session)], capture_output=True, timeout=60, check=False)
    assert driver.returncode == -9
    assert raylet.wait(20.0) == -9
    assert gone(session)


def test_a_guard_that_is_not_needed_any_more_touches_nothing(session, started):
    raylet = started(sys.executable, "-c", SLEEP, f"--session-dir={session}")
    guard = Guard(session)
    guard.close()
    with pytest.raises(ProcessLookupError):
        os.kill(guard._process.pid, 0)
    assert session.exists()
    assert raylet.poll() is None
