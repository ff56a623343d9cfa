"""Callbacks of `laser.train`, and the end of a run by Ctrl-C, by SIGTERM or by a callback."""

import contextlib
import dataclasses
import os
import pickle
import signal
import threading

import pytest

import laser
from laser.config import ConfigError
from launch.commands import resume_command
from launch.errors import StoppedError, run_reporting
from launch.records.metrics_db import read_series
from launch.settings.train_config import EvaluationConfig
from learner.checkpoint import list_checkpoints


def small(path, **changes):
    config = laser.load_preset("cartpole", {"learner.compile": "off", "replay.min-steps": 128})
    values = {"steps": 1024, "quiet": True, "run_dir": path, "num_envs": 4, **changes}
    return dataclasses.replace(config, **values)


class Notes(laser.Callback):
    def __init__(self):
        self.calls, self.threads = [], set()

    def note(self, name, *values):
        self.calls.append((name, *values))
        self.threads.add(threading.current_thread().name)

    def on_start(self, run):
        self.note("start", run.snapshot().env_steps, run.path, run.config.env)

    def on_report(self, run, snapshot):
        self.note("report", snapshot.env_steps)

    def on_episode(self, run, episode):
        self.note("episode", episode.episode_return)

    def on_evaluation(self, run, evaluated):
        self.note("evaluation", evaluated.env_steps, evaluated.mean_return, len(evaluated.episodes))

    def on_checkpoint(self, run, path):
        self.note("checkpoint", path)

    def on_end(self, run, result):
        self.note("end", result.finished, result.env_steps)

    def of(self, name):
        return [values for kind, *values in self.calls if kind == name]


@pytest.mark.parametrize("runtime", ["local", "lockstep"])
def test_a_run_calls_its_callbacks(tmp_path, runtime):
    notes = Notes()
    evaluation = EvaluationConfig(interval=256, episodes=2, num_envs=2)
    config = small(tmp_path / "run", runtime=runtime, evaluation=evaluation, steps=1536)
    result = laser.train(config, callbacks=[notes])
    kinds = [kind for kind, *_ in notes.calls]
    assert notes.of("start") == [[0, tmp_path / "run", "CartPole-v1"]]
    assert (kinds[0], kinds[-1]) == ("start", "end")
    assert notes.of("end") == [["steps", result.env_steps]]
    assert len(notes.of("episode")) == result.episodes >= 10
    newest = [value for (value,) in notes.of("episode")[-20:]]
    assert sum(newest) / len(newest) == pytest.approx(result.mean_return)
    assert [path for (path,) in notes.of("checkpoint")] == list_checkpoints(tmp_path / "run" / "checkpoints")
    assert notes.of("report")[-1] == [result.env_steps]
    curve = read_series(tmp_path / "run" / "metrics.db", "evaluation/mean_return")
    assert len(notes.of("evaluation")) == len(curve) >= 1
    assert all(number == 2 for _, _, number in notes.of("evaluation"))
    assert notes.threads == {"MainThread"}


@pytest.mark.parametrize("runtime", ["local", "lockstep"])
def test_a_callback_may_stop_the_run_which_can_go_on_later(tmp_path, runtime):
    class StopsSoon:
        def on_episode(self, run, episode):
            run.stop()

    result = laser.train(small(tmp_path / "run", runtime=runtime, steps=500_000), callbacks=[StopsSoon()])
    assert result.finished == "stopped"
    assert result.env_steps < 400_000
    more = laser.train(small(tmp_path / "run", runtime=runtime, steps=result.env_steps + 512, resume=True))
    assert more.finished == "steps"


def test_an_error_in_a_callback_ends_the_run_after_a_checkpoint(tmp_path):
    class Breaks:
        def on_report(self, run, snapshot):
            raise ZeroDivisionError("my mistake")

    with pytest.raises(ZeroDivisionError, match="my mistake"):
        laser.train(small(tmp_path / "run"), callbacks=[Breaks()])
    assert list_checkpoints(tmp_path / "run" / "checkpoints")


def test_methods_that_are_never_called_are_named_before_a_start(tmp_path):
    class Typo:
        def on_reports(self, run, snapshot):
            pass

    with pytest.raises(
        ConfigError, match=r"callbacks: .*Typo.* has on_reports, which is never called; methods are on_st"
    ):
        laser.train(small(tmp_path / "run"), callbacks=[Typo()])
    with pytest.raises(ConfigError, match=r"callbacks: .* has no method that is called"):
        laser.train(small(tmp_path / "run"), callbacks=[print])
    assert not (tmp_path / "run").exists()


class Signals(laser.Callback):
    def __init__(self, number):
        self.number, self.ended = number, []

    def on_episode(self, run, episode):
        if self.number is not None:
            os.kill(os.getpid(), self.number)
            self.number = None

    def on_end(self, run, result):
        self.ended.append(result.finished)


class SignalsAtTheEnd(laser.Callback):
    def on_checkpoint(self, run, path):
        if run.snapshot().env_steps >= run.config.steps:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("runtime", ["local", "lockstep"])
def test_a_signal_after_the_last_step_leaves_the_result(tmp_path, runtime):
    result = laser.train(small(tmp_path / "run", runtime=runtime), callbacks=[SignalsAtTheEnd()])
    assert (result.finished, result.env_steps >= 1024) == ("steps", True)


def test_ctrl_c_ends_a_loop_of_runs_that_goes_on_after_errors(tmp_path):
    callback, begun = Signals(signal.SIGINT), []
    with pytest.raises(laser.Interrupted, match=r"stopped: by Ctrl-C; saved at ") as caught:  # noqa: PT012
        for seed in range(3):
            begun.append(seed)
            with contextlib.suppress(Exception):  # as in a user's loop
                laser.train(small(tmp_path / str(seed), steps=500_000, seed=seed), callbacks=[callback])
    assert begun == [0]
    assert callback.ended == ["stopped"]
    assert str(caught.value).endswith(f"; to continue: {resume_command(tmp_path / '0')}")
    assert list_checkpoints(tmp_path / "0" / "checkpoints")
    assert issubclass(laser.Interrupted, KeyboardInterrupt)


def test_sigterm_is_the_error_that_it_was(tmp_path):
    with pytest.raises(StoppedError) as caught:
        laser.train(small(tmp_path / "run", steps=500_000), callbacks=[Signals(signal.SIGTERM)])
    assert caught.value.exit_code == 143


def test_the_command_keeps_its_exit_code_and_its_line(capsys):
    def interrupted():
        raise pickle.loads(pickle.dumps(laser.Interrupted("stopped", "by Ctrl-C", "saved at 5 env steps")))

    assert run_reporting(interrupted) == 130
    assert capsys.readouterr().err == "stopped: by Ctrl-C; saved at 5 env steps\n"
