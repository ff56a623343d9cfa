"""A run whose environments fail one by one: each is rebuilt alone, and no unroll is lost."""

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import laser
from launch.errors import FAILED, run_reporting
from launch.records.metrics_db import read_series


class Panic(BaseException):
    """An exception that is no `Exception`, as those of Rust."""


class MuteError(Exception):
    """An exception whose message cannot be read."""

    def __str__(self):
        raise RuntimeError("no words")


class Brittle(CartPoleEnv):
    """Breaks now and then, in one of these ways."""

    ways = (RuntimeError("the pole broke"), Panic("in Rust"), MuteError())

    def step(self, action):
        if self.np_random.random() < 0.01:
            raise self.np_random.choice(self.ways)
        return super().step(action)


class PanicBrittle(Brittle):
    """Breaks in one way only."""

    ways = (Panic("in Rust"),)


class MuteBrittle(Brittle):
    """Breaks without words."""

    ways = (MuteError(),)


@pytest.mark.parametrize(
    ("env", "words"), [(PanicBrittle, "Panic: in Rust"), (MuteBrittle, "MuteError: its __str__ raised RuntimeError")]
)
def test_the_error_that_ends_a_run_is_named_whatever_its_class_does(tmp_path, capsys, env, words):
    few = {"env": env, "environment.max_restarts": 0, "num_envs": 2, "quiet": True, "run_dir": tmp_path / "run"}
    config = laser.load_preset("cartpole", {**few, "runtime": "lockstep"})
    assert run_reporting(lambda: laser.train(config)) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"its last error: {words}; fix the environment")


def test_nothing_is_dropped_and_the_accounts_agree(tmp_path):
    own = {"env": Brittle, "environment.max_restarts": 1000, "environment.deadline_s": 60}
    few = {"steps": 2000, "num_envs": 4, "replay.min_steps": 64, "stop_at_return": float("inf"), "quiet": True}
    run = tmp_path / "run"
    result = laser.train(laser.load_preset("cartpole", {**own, **few, "run_dir": run, "runtime": "lockstep"}))
    assert result.finished == "steps"
    assert set(result.ledger["imbalance"].values()) <= {0}
    assert read_series(run / "metrics.db", "totals/restarts/raised")[-1][1] > 3
    assert not read_series(run / "metrics.db", "totals/dropped_rows/raised")
