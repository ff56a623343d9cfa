"""The supervisor of `--restart`: a small process that runs a command as its child and starts it again when it dies.

It imports neither torch nor Ray. A death is the end by a signal that nobody sends to stop a run, such as SIGKILL from
the kernel when memory runs out, a failure of Ray (exit code 69), or an end without a word, as Ray ends a program whose
raylet is gone. On a cluster a command that is started again waits for the head, and an end before its run begins is a
death, too: not all nodes may be back. Every other end is the command's own, and its exit code becomes that of the
supervisor.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType

from laser.config import Problem
from laser.waiting import waiting_for
from launch.command_line.flags import split_arguments
from launch.commands import resume_command
from launch.errors import RUNTIME_FAILED, StoppedError, one_line
from launch.records.log_file import append_to_log
from launch.restart_link import END, VARIABLE, connect
from launch.runtimes.ray_head import try_connection
from launch.settings.values import convert
from launch.standard_output import name_long_waits, say
from launch.supervision.signals import handled_unless_ignored
from learner.checkpoint_names import checkpoint_names, steps_of

_MOST_DEATHS = 5
"""Deaths without a newer checkpoint between them, after which a run is not started again."""
_LONGEST_WAIT_S = 30.0
_AWAY_DEADLINE_S, _HEAD_INTERVAL_S = 600.0, 2.0
"""Seconds in which the head or the nodes of a cluster may come back, and between two looks for the head."""
_DEATHS = [getattr(signal, name) for name in ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE", "SIGTRAP")]
_PASSED_ON = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP]
_PASS_ON_S = 0.2
"""Seconds after which a signal is passed on: one that came to the whole process group has reached the child by then."""


def supervise_if_asked(words: Sequence[str]) -> int | None:
    """Run a command line with `--restart` to its end, and return its exit code; None: this process itself runs it.

    Args:
        words: the command and its arguments.

    Raises:
        StoppedError: a signal came between two starts.
    """
    if connect() or not _is_asked(words):
        return None
    return _Supervisor(words).run()


def _is_asked(words: Sequence[str]) -> bool:
    text = split_arguments(words, {"restart"}).values.get("restart", "false")
    try:
        return bool(convert(text, bool))
    except ValueError:
        return False  # the command says what is wrong


class _Supervisor:
    """Runs one command line again and again. Used from the main thread."""

    def __init__(self, words: Sequence[str]):
        self._words = list(words)
        self._child: subprocess.Popen[bytes] | None = None
        self._run: Path | None = None
        self._has_begun = self._said_end = False  # of the newest child
        self._stopped_by: int | None = None
        self._address = split_arguments(words, {"restart"}).values.get("ray-address", "")

    def run(self) -> int:
        """Run the command until it ends by itself, is stopped, or dies too often."""
        num_restarts = num_deaths = newest = num_refusals = 0
        refused_since = 0.0
        with handled_unless_ignored(_PASSED_ON, self._pass_on):
            exit_code = self._run_child(self._words)
            while self._is_death(exit_code, num_restarts) and self._stopped_by is None:
                saved = _saved_steps(self._run)
                if self._is_refused(num_restarts):
                    num_refusals += 1
                    refused_since = time.monotonic() if num_refusals == 1 else refused_since
                else:
                    num_refusals = 0
                    num_deaths, newest = (1, saved) if saved > newest else (num_deaths + 1, newest)
                how = f"the trainer {_end(exit_code)}{_place(self._run)}"
                if self._run is None or not saved:
                    return self._give_up(f"{how} before its first checkpoint", "start it again", exit_code)
                if num_refusals and time.monotonic() - refused_since >= _AWAY_DEADLINE_S:
                    wrong = f"{how}; it could not begin again on this cluster for {_AWAY_DEADLINE_S:g} s"
                    return self._give_up(wrong, f"to continue: {resume_command(self._run)}", exit_code)
                if num_deaths >= _MOST_DEATHS:
                    wrong = f"{how}; it died {num_deaths} times without a new checkpoint between"
                    return self._give_up(wrong, f"to continue: {resume_command(self._run)}", exit_code)
                # None after a death with progress before it: each second would be lost to training.
                self._wait(min(2.0 ** max(num_deaths - 1, num_refusals) - 1.0, _LONGEST_WAIT_S))
                if self._address and not self._await_head():
                    wrong = f"{how}; the head at {self._address} has been away for {_AWAY_DEADLINE_S:g} s"
                    return self._give_up(wrong, f"to continue: {resume_command(self._run)}", exit_code)
                num_restarts += 1
                self._tell(f"restarted ({num_restarts}): {how}; continuing from {_newest_words(self._run)}")
                again = [word for word in self._words if word != "--no-resume"]
                exit_code = self._run_child([*again, "--resume", "--run-dir", str(self._run)])
        return exit_code if exit_code >= 0 else 128 - exit_code

    def _run_child(self, words: Sequence[str]) -> int:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                number = theirs.fileno()
                self._child = subprocess.Popen(
                    [sys.executable, *_program(self._words), *words],
                    env={**os.environ, VARIABLE: str(number)},
                    pass_fds=[number],
                )
            if self._stopped_by is not None:  # it came while the child was being started
                self._child.send_signal(self._stopped_by)
            exit_code = self._child.wait()
            heard = b""
            with suppress(BlockingIOError, ConnectionError):
                heard = ours.recv(2**16, socket.MSG_DONTWAIT)
            announced = heard.removesuffix(END)
            self._said_end, self._has_begun = heard != announced, bool(announced)
            if announced:
                self._run = Path(os.fsdecode(announced))
        return exit_code

    def _is_death(self, exit_code: int, num_restarts: int) -> bool:
        if -exit_code in _DEATHS or exit_code == RUNTIME_FAILED:
            return True
        if exit_code <= 0:
            return False
        return not self._said_end or self._is_refused(num_restarts)

    def _is_refused(self, num_restarts: int) -> bool:
        """Return whether a cluster on which the run has begun before did not let it begin again: nodes are missing."""
        return num_restarts > 0 and bool(self._address) and not self._has_begun

    def _await_head(self) -> bool:
        """Wait until something listens at the cluster's address; return False if nothing does until the deadline.

        Raises:
            StoppedError: a signal has come.
        """
        given_up_at = time.monotonic() + _AWAY_DEADLINE_S
        with name_long_waits(), waiting_for(f"the head at {self._address}"):
            while time.monotonic() < given_up_at:
                with suppress(OSError, ValueError):
                    try_connection(self._address, 5.0)
                    return True
                self._wait(_HEAD_INTERVAL_S)
        return False

    def _wait(self, seconds: float) -> None:
        """Wait, unless a signal comes.

        Raises:
            StoppedError: one has come.
        """
        until = time.monotonic() + seconds
        while self._stopped_by is None and time.monotonic() < until:
            time.sleep(0.05)
        if self._stopped_by is not None:
            assert self._run is not None
            by = "by Ctrl-C" if self._stopped_by == signal.SIGINT else f"by {signal.Signals(self._stopped_by).name}"
            again = f"to continue: {resume_command(self._run)}"
            raise StoppedError("stopped", by, again, exit_code=128 + self._stopped_by)

    def _give_up(self, wrong: str, remedy: str, exit_code: int) -> int:
        print(one_line(Problem("restart", wrong, remedy)), file=sys.stderr)
        self._log(f"failed: {wrong}")
        return exit_code if exit_code >= 0 else 128 - exit_code

    def _tell(self, line: str) -> None:
        say(line)
        self._log(line)

    def _log(self, line: str) -> None:
        with suppress(OSError):  # the command itself says when its files cannot be written
            if self._run is not None:
                append_to_log(self._run / "log.txt", line)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._stopped_by = number
        time.sleep(_PASS_ON_S)
        if self._child is not None and self._child.returncode is None:
            self._child.send_signal(number)


def _program(words: Sequence[str]) -> list[str]:
    """Return the arguments of Python before the command's own words: those with which this process was started."""
    given = sys.orig_argv[1:]
    return given[: -len(words)] if given[-len(words) :] == list(words) else ["-m", "launch"]


def _end(exit_code: int) -> str:
    """Return how a child ended, as the end of a sentence that begins with it."""
    if exit_code == RUNTIME_FAILED:
        return "was ended by a failure of Ray"
    return f"ended with code {exit_code}" if exit_code > 0 else f"was ended by {signal.Signals(-exit_code).name}"


def _members(run: Path) -> list[Path]:
    """Return the directories of a sweep's members, or that of the run itself."""
    return sorted(run.glob("members/*")) or [run]


def _checkpoints(member: Path) -> list[str]:
    """Return the names of a member's checkpoints, the newest first."""
    try:
        return checkpoint_names(member / "checkpoints")
    except OSError:
        return []


def _saved_steps(run: Path | None) -> int:
    """Return a number that grows with the env steps that the newest checkpoints hold; 0: there is no checkpoint."""
    newest = [] if run is None else [names[0] for member in _members(run) if (names := _checkpoints(member))]
    return sum(1 + steps_of(name) for name in newest)


def _newest_words(run: Path) -> str:
    members = _members(run)
    if members != [run]:
        return f"the newest checkpoint of each member in {shlex.quote(str(run))}"
    return f"checkpoint {_checkpoints(run)[0]}"


def _place(run: Path | None) -> str:
    """Return at which env step a run was, as the end of a clause; "" where it cannot be read."""
    steps = 0
    try:
        for member in [] if run is None else _members(run):
            with closing(sqlite3.connect(f"{(member / 'metrics.db').as_uri()}?mode=ro", uri=True)) as numbers:
                newest = numbers.execute("SELECT env_steps FROM ticks ORDER BY tick DESC LIMIT 1").fetchone()
                steps += newest[0] if newest else 0
    except sqlite3.Error:
        return ""
    return f" at {steps:,} env steps" if steps else ""
