"""Runs that the system refuses threads or open files: one clear line, and nothing is left behind."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from launch.errors import LimitError
from launch.runtimes.system_limits import check_limits

_AS_NOBODY = "--inh-caps=+dac_override,+dac_read_search --ambient-caps=+dac_override,+dac_read_search"
"""A user of its own, since root has no limit, who may read this checkout wherever it lies."""


def train(run: Path, *more: str, limits: dict[int, int], prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--steps", "3000", "--num-envs", "2", "--quiet"]
    command += ["--learner.compile", "off", "--run-dir", str(run), *more]

    def limit() -> None:
        for which, most in limits.items():
            resource.setrlimit(which, (most, most))

    return subprocess.run(
        [*prefix, *command],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture
def as_nobody():
    """The words before a command that run it as a user without other processes, and a folder of that user."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("a user without other processes needs root and setpriv")
    user = str(40_000 + os.getpid() % 20_000)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        words = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups", *_AS_NOBODY.split())
        yield ("env", f"HOME={folder}", "PYTHONDONTWRITEBYTECODE=1", *words), Path(folder)


def only_line(process: subprocess.CompletedProcess) -> str:
    assert process.returncode != 0
    (line,) = [line for line in process.stderr.splitlines() if not line.startswith("Error in cpuinfo: ")]
    return line


@pytest.mark.parametrize("num_threads", [2, 4, 6])
def test_a_run_without_threads_is_one_line(as_nobody, num_threads):
    prefix, folder = as_nobody
    run = folder / "run"
    ended = train(run, "--runtime", "local", limits={resource.RLIMIT_NPROC: num_threads}, prefix=prefix)
    assert ended.returncode == 1
    line = only_line(ended)
    assert line.startswith("error: threads: the system starts no more threads; raise the limit on processes (ulimit -u")
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_run_without_open_files_is_one_line(tmp_path):
    ended = train(tmp_path / "run", "--runtime", "local", limits={resource.RLIMIT_NOFILE: 8})
    assert ended.returncode in (1, 74)
    line = only_line(ended)
    assert "too many open files" in line.lower()
    assert "; raise the limit on open files (ulimit -n), then start again" in line


def test_ray_is_not_started_without_open_files(tmp_path):
    ended = train(tmp_path / "run", "--runtime", "ray", limits={resource.RLIMIT_NOFILE: 64})
    assert ended.returncode == 1
    assert only_line(ended) == (
        "error: files: Ray needs 104 open files in a process, and the limit is 64; "
        "raise the limit on open files (ulimit -n); --runtime local needs no Ray"
    )
    assert not (tmp_path / "run").exists()


def test_ray_is_not_started_without_threads(as_nobody):
    prefix, folder = as_nobody
    limits = {resource.RLIMIT_NPROC: 100}
    ended = train(folder / "run", "--runtime", "ray", limits=limits, prefix=prefix)
    assert ended.returncode == 1
    line = only_line(ended)
    assert line.startswith("error: threads: Ray needs about 370 threads, and the system starts no more than ")
    assert line.endswith("; --runtime local needs no Ray")
    assert not (folder / "run").exists()


def test_a_limit_that_this_user_may_raise_is_raised():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 200), hard))
    try:
        check_limits("it", 1, 250, "leave it")
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (250, hard)
        with pytest.raises(LimitError, match=f"it needs {hard + 1} open files in a process, and the limit is {hard}"):
            check_limits("it", 1, hard + 1, "leave it")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
