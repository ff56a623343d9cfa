"""Messages that nobody can read are lost, and nothing else is."""

import json
import os
import shlex
import subprocess
import sys
import threading
import time

import pytest

from laser.waiting import current_wait, waiting_for
from launch.standard_output import FailingStream, name_long_waits

ASCII = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}


def test_messages_are_lost_once_their_reader_has_gone(tmp_path):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        lossy = FailingStream(stream, is_lossy=True)
        print("one", file=lossy, flush=True)
        assert os.read(reading, 10) == b"one\n"
        os.close(reading)
        print("two", file=lossy, flush=True)
        assert lossy.write("three" * 100_000) == 500_000
        assert lossy.fileno() == writing


def test_a_stream_that_fails_remembers_why_and_is_silent_from_then_on():
    with open("/dev/full", "w") as stream:
        watched = FailingStream(stream, is_lossy=False)
        with pytest.raises(OSError, match="No space left on device") as caught:
            print("x", file=watched, flush=True)
        assert watched.error is caught.value
        print("y", file=watched, flush=True)


def test_a_run_goes_on_without_a_reader_of_its_messages(tmp_path):
    arguments = ["train", "cartpole", "--steps", "600", "--json", "--run-dir", str(tmp_path / "run")]
    command = [sys.executable, "-m", "launch", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stderr.close()
        assert '"finished": "steps"' in process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("closed", "runtime"),
    [
        ((1,), "local"),
        ((2,), "local"),
        ((0, 1, 2), "local"),
        pytest.param((2,), "ray", marks=[pytest.mark.ray, pytest.mark.slow]),
        pytest.param((0, 1, 2), "ray", marks=[pytest.mark.ray, pytest.mark.slow]),
    ],
)
def test_a_run_whose_streams_are_closed_trains_and_says_nothing_into_its_files(tmp_path, closed, runtime):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--steps", "600", "--json", "--run-dir", str(run)]
    command += ["--runtime", runtime]
    shell = shlex.join(command) + "".join(f" {number}>&-" for number in closed)
    ended = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=90, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "finished: steps" in (run / "log.txt").read_text()
    assert ('"finished": "steps"' in ended.stdout) is (1 not in closed)
    assert "Traceback" not in ended.stderr


SWEEP = ["sweep", "cartpole", "--steps", "600", "--seeds", "2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "closed", "written"),
    [
        ([*SWEEP, "--run-dir", "sweep"], (0, 1, 2), "sweep/members/1/metrics.db"),
        (["report", "run"], (1, 2), "run/report/index.html"),
        (["eval", "run", "--episodes", "2", "--log", "minari:laser/closed-v0"], (0, 1, 2), "data/laser/closed-v0"),
        (["export", "run", "--out", "policy.onnx"], (0, 1, 2), "policy.onnx"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_do_their_work_without_streams(tmp_path, command, closed, written):
    laser_ = [sys.executable, "-m", "launch"]
    if command[0] != "sweep":
        train = [*laser_, "train", "cartpole", "--steps", "600", "--run-dir", "run", "--quiet"]
        subprocess.run(train, cwd=tmp_path, check=True, timeout=90)
    shell = shlex.join([*laser_, *command]) + "".join(f" {number}>&-" for number in closed)
    ended = subprocess.run(
        ["sh", "-c", shell],
        cwd=tmp_path,
        env={**os.environ, "MINARI_DATASETS_PATH": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0
    assert (tmp_path / written).exists()
    assert not any("Traceback" in log.read_text() for log in tmp_path.rglob("log.txt"))


@pytest.mark.slow
def test_a_sweep_and_its_report_are_written_where_the_stream_lacks_characters(tmp_path):
    for words in ([*SWEEP, "--run-dir", "Läufe"], ["report", "Läufe"]):
        ended = subprocess.run(
            [sys.executable, "-m", "launch", *words],
            cwd=tmp_path,
            env=ASCII,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert (ended.stdout + ended.stderr).isascii()
        assert "Traceback" not in ended.stderr
    assert (tmp_path / "Läufe" / "report" / "index.html").exists()


def test_a_run_trains_where_the_stream_lacks_characters(tmp_path):
    run = tmp_path / "Läufe" / "größer"
    ended = subprocess.run(
        [sys.executable, "-m", "launch", "train", "cartpole", "--steps", "600", "--run-dir", str(run)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=ASCII,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.isascii()
    assert ended.stderr.isascii()
    assert r"L\xe4ufe" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert "finished: steps" in (run / "log.txt").read_text()


def test_a_result_is_not_lost_to_a_character_that_the_stream_lacks(tmp_path):
    train = [sys.executable, "-m", "launch", "train", "cartpole", "--steps", "600", "--run-dir", str(tmp_path / "run")]
    subprocess.run([*train, "--quiet"], check=True, timeout=90)
    played = [sys.executable, "-m", "launch", "eval", str(tmp_path / "run"), "--episodes", "2", "--json"]
    ended = subprocess.run(
        played,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=ASCII,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["episodes_played"] == 2
    assert r"\xb1" in ended.stdout


def waits_named_during(capsys, waits, **options):
    """Returns what is said while this thread waits for each of some things for the given seconds."""
    with name_long_waits(**options):
        for what, seconds in waits:
            with waiting_for(what):
                time.sleep(seconds)
    return capsys.readouterr().err.splitlines()


def test_a_long_wait_is_named_and_then_ever_more_rarely(capsys):
    lines = waits_named_during(capsys, [("the moon", 1.0)], after_s=0.1)
    assert 1 <= len(lines) <= 3
    assert all(line.startswith("waiting for the moon (") and line.endswith(" s so far)") for line in lines)


def test_short_waits_are_not_named_however_many(capsys):
    assert waits_named_during(capsys, [("the moon", 0.01)] * 30, after_s=30.0) == []


def test_a_wait_without_words_is_not_named(capsys):
    assert waits_named_during(capsys, [("", 0.3), (lambda: "", 0.3)], after_s=0.05) == []


def test_who_wants_quiet_hears_nothing(capsys):
    assert waits_named_during(capsys, [("the moon", 0.3)], quiet=True, after_s=0.05) == []


def test_within_a_command_nobody_else_names_waits(capsys):
    with name_long_waits(after_s=0.1):
        named = waits_named_during(capsys, [("the moon", 0.25)], after_s=0.1)
    assert len(named) == 1
    assert current_wait(threading.get_ident()) is None
    time.sleep(0.2)
    assert capsys.readouterr().err == ""
