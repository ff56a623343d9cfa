"""The runs of a reproduction as child processes: several at a time, stopped together, each resumed where it was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from launch.errors import RunInUseError
from launch.reproductions.plan import Run
from launch.reproductions.state import Reproduction
from launch.restart_link import VARIABLE
from launch.supervision.signals import StopSignal, stop_on_signals

_POLL_S = 0.1
_STOP_S = 120.0


@dataclass
class _Child:
    run: Run
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    link: socket.socket
    begun: float

    def close(self) -> None:
        self.log.close()
        self.link.close()


def run_all(
    reproduction: Reproduction,
    runs: Sequence[Run],
    jobs: int,
    ray_address: str,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Run what is not done yet, and return the failures: the last line of each by the run's name.

    A run that fails does not keep the others from running; the next call tries it again.

    Args:
        reproduction: its directory.
        runs: all runs.
        jobs: runs at the same time.
        ray_address: of a cluster, or "".
        say: prints a line of progress.

    Raises:
        Interrupted: Ctrl-C; running children have saved a checkpoint.
        StoppedError: the same for another signal.
    """
    waiting = [run for run in runs if not reproduction.is_done(run)]
    children: list[_Child] = []
    failures: dict[str, str] = {}
    (reproduction.path / "logs").mkdir(exist_ok=True)
    with stop_on_signals() as stop:
        try:
            while waiting or children:
                if stop.requested:
                    raise _stopped(stop, reproduction, len(waiting) + len(children))
                while waiting and len(children) < jobs:
                    run = waiting.pop(0)
                    say(f"{len(runs) - len(waiting)} of {len(runs)}: {run.name}")
                    try:
                        children.append(_start(reproduction, run, ray_address))
                    except RunInUseError as error:
                        failures[run.name] = str(error.problem)
                        say(f"failed: {run.name}: {error.problem}")
                for child in [child for child in children if child.process.poll() is not None]:
                    children.remove(child)
                    child.close()
                    if child.process.returncode == 0:
                        reproduction.set_done(child.run, time.monotonic() - child.begun)
                    elif not stop.requested:
                        failures[child.run.name] = _last_line(reproduction, child)
                        say(f"failed: {child.run.name}: {failures[child.run.name]}")
                time.sleep(_POLL_S)
        finally:
            _end(children)
    return failures


def _start(reproduction: Reproduction, run: Run, ray_address: str) -> _Child:
    place = reproduction.run_dir(run)
    words = [*run.words, "--run-dir", str(place), "--quiet"]
    words += ["--resume"] if reproduction.resume_or_clear(run) else []
    words += ["--ray-address", ray_address] if ray_address else []
    place.parent.mkdir(exist_ok=True)
    log = _log_path(reproduction, run).open("ab")
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        # A session of its own: a Ctrl-C of the terminal reaches the children through this process only, once. If this
        # process is killed, the link ends, and the child saves and stops.
        process = subprocess.Popen(
            [sys.executable, "-m", "launch", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, VARIABLE: str(number)},
            pass_fds=[number],
        )
    return _Child(run, process, log, ours, time.monotonic())


def _end(children: Sequence[_Child]) -> None:
    """Ask the children to save and end, and end those that do not in time."""
    for child in children:
        child.process.terminate()
    deadline = time.monotonic() + _STOP_S
    for child in children:
        try:
            child.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
        child.close()


def _stopped(stop: StopSignal, reproduction: Reproduction, num_left: int) -> BaseException:
    words = f"{num_left} runs are left in {reproduction.path}; the same command goes on with them"
    return stop.error(words)


def _log_path(reproduction: Reproduction, run: Run) -> Path:
    return reproduction.path / "logs" / f"{run.name}.txt"


def _last_line(reproduction: Reproduction, child: _Child) -> str:
    path = _log_path(reproduction, child.run)
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"{lines[-1] if lines else f'exit code {child.process.returncode}'} ({path})"
