import io
import math
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from laser.ports import EpisodeResult, Report
from launch.presets import load_preset
from launch.recording.progress import Progress, closing_message, describe, describe_evaluation, duration, percent
from launch.recording.recorder import Snapshot
from launch.standard_output import say
from launch.supervision.ending import Ending, why_ended


def snapshot(**changes):
    values = {
        "env_steps": 25_000,
        "frames": 100_000,
        "learner_steps": 10,
        "episodes": 30,
        "mean_return": 12.34,
        "seconds": 75.0,
        "env_steps_per_second": 1000.0,
        "learner_steps_per_second": 1.0,
        "bottleneck": "environment (71% of the actors' time)",
    }
    return Snapshot(**values | changes)


_ACCEPTED = {
    "accept_fraction_online": 0.995,
    "accept_fraction_own_replay": 0.5,
    "num_steps_own_replay": 7.0,
    "accept_fraction_foreign_replay": 0.0,
    "num_steps_foreign_replay": 0.0,
    "entropy": 1.0,
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_line_says_what_is_known():
    line = describe(snapshot(gauges=_ACCEPTED), 100_000, "CartPole-v1")
    assert line == (
        "CartPole-v1 · 25,000 of 100,000 env steps (25%) · 1,000 env steps/s · 1m15s left · return 12.3 · "
        "accepted 100% of fresh, 50% of own replay · limited by environment (71% of the actors' time)"
    )


def test_the_line_leaves_out_what_is_not_known():
    start = snapshot(env_steps=0, env_steps_per_second=0.0, mean_return=math.nan, episodes=0, bottleneck="")
    line = describe(start, 100, "")
    assert line == "0 of 100 env steps (0%) · 0 env steps/s · no episode has finished yet"

    assert "left" not in describe(snapshot(env_steps=100), 100)


def test_a_few_steps_more_than_asked_for_are_all_of_them():
    assert percent(6083, 6000) == "100%"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (60, "1m00s"), (3599.6, "1h00m"), (7500, "2h05m"), (100_000, "1d03h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.fixture
def everything_installed(monkeypatch):
    monkeypatch.setattr("launch.recording.progress.is_installed", lambda name: True)


@pytest.mark.usefixtures("everything_installed")
def test_the_closing_message_says_what_to_try_next():
    text = closing_message(snapshot(env_steps=50_016), Path("runs/x"), "cartpole", 50_000)
    assert "mean return 12.3 over the last 20 episodes" in text
    assert "laser eval runs/x --episodes 20" in text
    assert "laser train cartpole --resume --run-dir runs/x --steps 100000" in text
    assert "tensorboard --logdir runs/x" in text
    assert "laser report runs/x" in text
    assert "laser dashboard runs\n" in text
    text = closing_message(snapshot(mean_return=math.nan, episodes=0), Path("runs/x"), "", 50_000)
    assert "no episode finished" in text
    assert "laser train" not in text


def test_the_closing_message_says_why_the_run_ended():
    config = load_preset("cartpole")
    for ending, words in (
        (Ending.SOLVED, f"done, since the mean return reached {config.stop_at_return:g}: 25,000 env steps"),
        (Ending.STEPS, "done, since all env steps are done: 25,000 env steps"),
        (Ending.STOPPED, "done, since a callback stopped it: 25,000 env steps"),
    ):
        assert closing_message(snapshot(), Path("x"), "", 50_000, why_ended(ending, config)).startswith(words)


def test_an_evaluation_is_one_line():
    episodes = (EpisodeResult(10.0, 5), EpisodeResult(21.0, 7))
    report = Report("evaluator", episodes=episodes, at_env_steps=12_000)
    assert describe_evaluation(report) == "evaluation at 12,000 env steps: mean return 15.5 over 2 episodes"


def test_messages_are_printed_above_the_live_line(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress(snapshot, 100_000, "x"):
        wait_for(lambda: "25,000 of 100,000" in stream.getvalue())
        say("evaluation [1]: good")
        wait_for(lambda: "evaluation [1]: good" in stream.getvalue())
        shown = stream.getvalue()
        assert "evaluation [1]: good\n" in shown
        wait_for(lambda: "25,000 of 100,000" in stream.getvalue().partition("good")[2])
    say("afterwards")
    assert stream.getvalue().endswith("afterwards\n")


def test_messages_that_came_at_the_very_end_are_printed(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress(snapshot, 100_000, "x"):
        say("last words")
    assert stream.getvalue().count("last words\n") == 1


def test_what_is_not_installed_is_not_offered(monkeypatch):
    monkeypatch.setattr("launch.recording.progress.is_installed", lambda name: name == "tensorboard")
    text = closing_message(snapshot(), Path("runs/x"), "cartpole", 50_000)
    assert "tensorboard --logdir" in text
    assert "laser eval" in text
    assert "laser report" not in text
    assert "laser dashboard" not in text


@pytest.mark.usefixtures("everything_installed")
def test_what_to_try_next_can_be_pasted_into_a_shell():
    text = closing_message(snapshot(), Path("my runs/x"), "cartpole", 50_000)
    assert "laser train cartpole --resume --run-dir 'my runs/x' " in text
    assert "laser dashboard 'my runs'" in text
    assert "laser eval ./-y --episodes" in closing_message(snapshot(), Path("-y"), "cartpole", 50_000)


def test_what_was_solved_before_its_steps_is_not_resumed_to_be_solved_at_once():
    text = closing_message(snapshot(env_steps=25_000), Path("runs/x"), "cartpole", 50_000)
    assert "laser train cartpole --resume --run-dir runs/x --stop-at-return inf" in text


@pytest.mark.parametrize(("found", "shown"), [("/usr/bin/laser", "  laser eval"), (None, "  .venv/bin/laser eval")])
def test_programs_are_named_as_the_shell_finds_them(tmp_path, monkeypatch, found, shown):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "laser").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: found)
    assert shown in closing_message(snapshot(), Path("runs/x"), "cartpole", 50_000)


def test_plain_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    with Progress(snapshot, 100_000, "x", stream=stream, interval_s=0.01):
        wait_for(lambda: stream.getvalue().count("\n") >= 2)
    lines = stream.getvalue().splitlines()
    assert lines[0] == describe(snapshot(), 100_000, "x")
    assert "\x1b" not in stream.getvalue()


def test_a_live_line_on_a_terminal():
    stream = Terminal()
    with Progress(lambda: snapshot(bottleneck="[bold]odd[/bold]"), 100_000, "[red]x", stream=stream):
        while "limited by" not in stream.getvalue():
            time.sleep(0.01)
    assert "25,000 of 100,000" in stream.getvalue()
    assert "[red]x" in stream.getvalue(), "names are text, not markup"
    assert "[bold]odd[/bold]" in "".join(stream.getvalue().split("\n"))


def test_quiet_is_silent():
    stream = io.StringIO()
    with Progress(snapshot, 100, quiet=True, stream=stream, interval_s=0.001):
        time.sleep(0.02)
    assert stream.getvalue() == ""


def test_a_terminal_that_hangs_holds_up_nothing(monkeypatch):
    release = threading.Event()

    class Hanging(io.StringIO):
        def write(self, text):
            release.wait(30)
            return len(text)

    progress = Progress(snapshot, 100, stream=Hanging(), interval_s=0.001)
    monkeypatch.setattr("launch.recording.progress._PATIENCE_S", 0.05)
    start = time.monotonic()
    with progress:
        time.sleep(0.05)
    assert time.monotonic() - start < 2
    release.set()


def test_a_closed_terminal_is_no_error():
    stream = io.StringIO()
    with Progress(snapshot, 100, stream=stream, interval_s=0.001):
        stream.close()
        time.sleep(0.02)


def wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert condition()


def test_on_a_terminal_nothing_is_left_of_a_display_whose_run_was_solved_early():
    terminal = Terminal()
    with Progress(lambda: snapshot(env_steps=22), 100, stream=terminal):
        while "left" not in terminal.getvalue():
            time.sleep(0.01)
    shown, _, after = terminal.getvalue().rpartition("left")
    assert "22%" in shown
    assert after.endswith("\x1b[2K")  # the lines of the display are erased
