"""The end of a benchmark's run; a shell stands in for it."""

import subprocess

import pytest

from laser.config import ConfigError
from launch.bench.chaos_run.place import OneMachine
from launch.bench.chaos_run.victim import Victim


def victim_of(script, tmp_path):
    victim = Victim("cartpole", 0, tmp_path / "run", tmp_path / "said.txt", OneMachine(), 10.0, [])
    words = f"{script}; echo ready; while :; do sleep 0.05; done"
    victim._supervisor = subprocess.Popen(["sh", "-c", words], stdout=subprocess.PIPE)
    with victim._supervisor.stdout as said:
        said.readline()
    return victim


def test_a_run_that_was_started_to_ignore_ctrl_c_is_stopped(tmp_path):
    """As all are whose benchmark was started with `&` in a script."""
    victim_of("trap '' INT; trap 'exit 143' TERM", tmp_path).stop()


def test_a_run_that_ends_in_another_way_is_named(tmp_path):
    (tmp_path / "said.txt").write_text("error: it broke\n")
    with pytest.raises(ConfigError, match="the run ended with exit code 1 after SIGTERM: error: it broke"):
        victim_of("trap 'exit 1' TERM", tmp_path).stop()
