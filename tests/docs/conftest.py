import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "docs" / "examples"
QUICK = {"steps": 1000, "quiet": True, "runtime": "lockstep", "num_envs": 2, "replay.min_steps": 64}


@pytest.fixture
def examples(monkeypatch, tmp_path):
    """The folder of examples, importable as from a program that lies in it; runs go to a directory of the test."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    return EXAMPLES


@pytest.fixture
def quick():
    """Values that make a training a matter of a second."""
    return dict(QUICK)


@pytest.fixture
def play_in_a_new_process():
    """Plays one episode with a run, from a folder, in a process that knows nothing of this one's modules."""

    def play(run_dir, folder):
        command = [sys.executable, "-m", "launch", "eval", str(run_dir), "--episodes", "1", "--num-envs", "1"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)

    return play
