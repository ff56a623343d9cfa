import io
import pickle
import subprocess
import sys
import warnings

import pytest

from laser.config import ConfigError, Problem
from laser.environments import EnvironmentConfig, make_environment
from launch.errors import (
    CannotCreateError,
    LaunchError,
    NothingToResumeError,
    OutputError,
    RunInUseError,
    StoppedError,
    run_reporting,
)


def report(error):
    def command():
        raise error

    stream = io.StringIO()
    return run_reporting(command, stream), stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "code"),
    [(LaunchError, 1), (NothingToResumeError, 66), (CannotCreateError, 73), (OutputError, 74), (RunInUseError, 75)],
)
def test_each_error_has_its_code_and_one_line(kind, code):
    assert report(kind("key", "is\nwrong", "do  this")) == (code, "error: key: is wrong; do this\n")


def test_config_errors_are_all_printed():
    found = report(ConfigError([Problem("a", "x", "y"), Problem("b.c", "z")]))
    assert found == (2, "error: a: x; y\nerror: b.c: z\n")


def test_memory_that_is_not_there_is_one_line():
    found = report(MemoryError("Unable to allocate 2 PiB"))
    assert found == (1, "error: memory: Unable to allocate 2 PiB; ask for less, or use a machine with more\n")


def test_stopping_is_no_error():
    assert report(StoppedError("stopped", "by Ctrl-C", "saved", exit_code=130)) == (130, "stopped: by Ctrl-C; saved\n")


@pytest.mark.parametrize("error", [OutputError("a", "b", "c"), StoppedError("a", "b", "c", exit_code=143)])
def test_errors_cross_process_boundaries(error):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.problem, back.exit_code) == (type(error), error.problem, error.exit_code)


def test_a_reader_of_the_output_that_has_gone_is_no_traceback():
    command = [sys.executable, "-m", "launch", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # before it has anything to say
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "launch", "--help"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr == "error: stdout: cannot be written: No space left on device; free space\n"
    assert ended.returncode == 74


def test_another_broken_pipe_keeps_its_traceback():
    with pytest.raises(BrokenPipeError):
        report(BrokenPipeError("that of an environment's process"))


def test_a_warning_of_ours_is_one_line_and_one_of_others_says_where():
    stream = io.StringIO()

    def command():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            for _ in range(2):  # the second one is not said again
                make_environment("CartPole-v1", 1, EnvironmentConfig(max_noops=5)).close()
            warnings.warn("somebody else's", UserWarning, stacklevel=1)
        return 0

    assert run_reporting(command, stream) == 0
    first, second, *_ = stream.getvalue().splitlines()
    assert first == "warning: --environment.max-noops: no effect on Gymnasium environments"
    assert "test_errors.py" in second
