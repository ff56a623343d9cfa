"""Messages that nobody can read are lost, and nothing else is."""

import os
import subprocess
import sys

import pytest

from launch.standard_output import FailingStream


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
