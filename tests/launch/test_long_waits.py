"""Environments that do not return from their constructor or from `close()`: what a user reads meanwhile."""

import functools
import re
import threading
import time

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import laser
from launch.errors import LaunchError
from launch.standard_output import name_long_waits, say

SMALL = {"steps": 256, "num_envs": 1, "replay.min_steps": 64, "replay.capacity_steps": 2000}


class Slow(CartPoleEnv):
    """Waits in one of its methods, from its second instance on: the first is the one that LASER looks at."""

    num_made = 0
    slow = ""
    release = threading.Event()

    def __init__(self, **arguments):
        super().__init__(**arguments)
        Slow.num_made += 1
        self.number = Slow.num_made
        self._wait("constructor")

    def close(self):
        self._wait("close")

    def _wait(self, method):
        if method == Slow.slow and self.number > 1:
            Slow.release.wait(20.0)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Names waits after a tenth of a second, and gives up soon."""
    monkeypatch.setattr(Slow, "num_made", 0)
    monkeypatch.setattr(Slow, "release", threading.Event())
    monkeypatch.setattr("launch.train.name_long_waits", functools.partial(name_long_waits, after_s=0.3))
    monkeypatch.setattr("launch.evaluation.evaluate.name_long_waits", functools.partial(name_long_waits, after_s=0.3))
    monkeypatch.setattr("laser.environments.config._CONSTRUCTION_DEADLINE_S", 2.0)
    monkeypatch.setattr("launch.runtimes.local_runtime.CLOSE_DEADLINE_S", 1.0)
    yield
    Slow.release.set()


def config_in(path, **changes):
    return laser.load_preset("cartpole", {**SMALL, "env": Slow, "run_dir": path, **changes})


@pytest.mark.parametrize("runtime", ["local", "lockstep"])
def test_a_constructor_that_hangs_is_named_while_it_does_and_at_its_deadline(tmp_path, monkeypatch, capsys, runtime):
    monkeypatch.setattr(Slow, "slow", "constructor")
    config = config_in(tmp_path / "run", runtime=runtime, **{"environment.deadline_s": 5.0})
    with pytest.raises(LaunchError, match=r"Slow\S* did not return from being constructed for 5 s"):
        laser.train(config)
    said = capsys.readouterr().err
    assert re.search(r"^waiting for \S*Slow\S* of actor/0 to return from being constructed \(", said, re.MULTILINE)


def test_a_close_that_hangs_is_named_on_the_terminal_and_in_the_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Slow, "slow", "close")
    result = laser.train(config_in(tmp_path / "run"))
    words = "an environment of actor/0 did not return from close()"
    assert f"warning: {words}" in capsys.readouterr().err
    assert words in (tmp_path / "run" / "log.txt").read_text()
    assert result.finished == "steps"


def test_an_evaluation_names_what_it_waits_for(tmp_path, monkeypatch, capsys):
    laser.train(config_in(tmp_path / "run", quiet=True))
    monkeypatch.setattr(Slow, "slow", "constructor")

    def say_and_release(words):
        say(words)
        if "waiting for" in words:
            Slow.release.set()

    monkeypatch.setattr("launch.standard_output.say", say_and_release)
    laser.evaluate(tmp_path / "run", episodes=1, num_envs=1)
    assert re.search(r"waiting for \S*Slow\S* to return from being constructed", capsys.readouterr().err)


def test_a_run_that_nothing_holds_up_says_nothing_of_waits(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("launch.train.name_long_waits", name_long_waits)
    begun = time.monotonic()
    laser.train(config_in(tmp_path / "run"))
    said = capsys.readouterr().err
    assert "waiting for" not in said or time.monotonic() - begun > 5.0
    assert "did not return" not in said


def test_no_thread_is_left_when_the_block_ends():
    def watchers():
        return [thread for thread in threading.enumerate() if thread.name == "long waits"]

    for _ in range(50):  # without the join most of these are still there
        with name_long_waits():
            assert watchers()
        assert not watchers(), "it would be torn down while Python ends, which can abort the process"
