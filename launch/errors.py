"""Errors that end a command with one line for the user: each has an exit code, and `run_reporting` prints the line.

Exit codes follow sysexits where one fits: 2 usage or config, 66 nothing to resume from, 69 Ray failed, 73 cannot
create, 74 input or output failed, 75 run directory in use, 77 code that is not trusted. 130 is Ctrl-C, 143 SIGTERM, 129
SIGHUP, and 141 a closed reader of standard output.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import ClassVar, TextIO, cast

from laser.config import ConfigError, Problem
from launch.gpu_errors import explain_error
from launch.limits import explain_limit
from launch.standard_output import FailingStream
from launch.start_directory import as_typed

_PACKAGES = ("actors", "laser", "launch", "learner", "replay_server")
_OURS = tuple(Path(__file__).resolve().parents[1] / name for name in _PACKAGES)

USAGE, FAILED, RUNTIME_FAILED, INTERRUPTED, TERMINATED, UNREAD = 2, 1, 69, 130, 143, 141


class LaunchError(RuntimeError):
    """A run cannot start or continue, for a reason outside the program. `problem` is the line that the user reads."""

    exit_code: ClassVar[int] = FAILED

    def __init__(self, key: str, wrong: str, remedy: str = ""):
        self.problem = Problem(key, as_typed(wrong), as_typed(remedy))
        super().__init__(str(self.problem))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Return how to rebuild the error from its three parts, so that it can be sent to another process."""
        return type(self), (self.problem.key, self.problem.wrong, self.problem.remedy)


class NothingToResumeError(LaunchError):
    """`--resume` found no checkpoint that passes verification."""

    exit_code = 66


class CannotCreateError(LaunchError):
    """The run directory exists already or cannot be written."""

    exit_code = 73


class OutputError(LaunchError):
    """Reading or writing a run's files failed, for example because the disk is full."""

    exit_code = 74


class RunInUseError(LaunchError):
    """Another process trains in this run directory."""

    exit_code = 75


class UntrustedError(LaunchError):
    """A run directory names code that this user has not named himself."""

    exit_code = 77


class RuntimeFailedError(LaunchError):
    """Ray did not start, or one of its own processes ended."""

    exit_code = RUNTIME_FAILED


class LimitError(LaunchError):
    """The system refuses threads, processes or open files that the run needs."""


class StoppedError(LaunchError):
    """SIGTERM stopped the run after its checkpoint. `exit_code` is 128 + the signal's number."""

    def __init__(self, key: str, wrong: str, remedy: str = "", exit_code: int = INTERRUPTED):
        super().__init__(key, wrong, remedy)
        self.exit_code = exit_code  # type: ignore[misc]

    def __reduce__(self) -> tuple[type, tuple[str, str, str, int]]:  # type: ignore[override]
        """Return how to rebuild the error from its four parts."""
        return type(self), (self.problem.key, self.problem.wrong, self.problem.remedy, self.exit_code)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped the run after its checkpoint. No `except Exception` catches it, so a loop of runs ends too."""

    exit_code: ClassVar[int] = INTERRUPTED

    def __init__(self, key: str, wrong: str, remedy: str = ""):
        self.problem = Problem(key, as_typed(wrong), as_typed(remedy))
        super().__init__(str(self.problem))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Return how to rebuild the error from its three parts."""
        return type(self), (self.problem.key, self.problem.wrong, self.problem.remedy)


def one_line(problem: Problem) -> str:
    """Return `error: KEY: what is wrong; what to do` on one line, whatever the parts contain."""
    return "error: " + " ".join(str(problem).split())


def run_reporting(command: Callable[[], int], stderr: TextIO | None = None) -> int:
    """Run a command, report errors that a user can cause as lines on standard error, and return the exit code.

    Errors of the program itself keep their traceback. Lines are lost once the reader of standard error has closed it.
    """
    stream = cast("TextIO", FailingStream(stderr or sys.stderr, is_lossy=True))
    stdout = FailingStream(sys.stdout, is_lossy=False)
    try:
        with redirect_stdout(cast("TextIO", stdout)), redirect_stderr(stream), warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, stream, set())
            exit_code = command()
            stdout.flush()
        return exit_code
    except ConfigError as error:
        for problem in error.problems:
            print(one_line(problem), file=stream)
        return USAGE
    except (StoppedError, Interrupted) as error:
        print(" ".join(str(error.problem).split()), file=stream)
        return error.exit_code
    except LaunchError as error:
        print(one_line(error.problem), file=stream)
        return error.exit_code
    except MemoryError as error:
        what = str(error) or "there is not enough"
        print(one_line(Problem("memory", what, "ask for less, or use a machine with more")), file=stream)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted", file=stream)
        return INTERRUPTED
    except OSError as error:
        limit = explain_limit(error)
        if limit is not None:
            print(one_line(limit), file=stream)
            return FAILED
        if error is not stdout.error:
            raise
        if not isinstance(error, BrokenPipeError):
            print(one_line(Problem("stdout", f"cannot be written: {error.strerror}", "free space")), file=stream)
            return OutputError.exit_code
        return UNREAD  # `head` closes its input early
    except Exception as error:
        explained = explain_limit(error) or explain_error(error)
        if explained is None:
            raise
        if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":  # the user set it to see where the kernel failed
            traceback.print_exception(error, file=stream)
        print(one_line(explained), file=stream)
        return FAILED


def _show_warning(
    stream: TextIO,
    shown: set[str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of LASER as one line, once, and without its source line, which does not help a user."""
    if any(Path(filename).is_relative_to(package) for package in _OURS):
        words = " ".join(str(message).split())
        if words not in shown:
            print(f"warning: {words}", file=stream)
        shown.add(words)
    else:
        (file or stream).write(warnings.formatwarning(message, category, filename, lineno, line))
