"""The runner: steps one after the other, each in a process of its own, within their shares of a part's time.

A step that hangs is killed at its deadline with everything it has started; what it said before counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import IO

import psutil

from launch.bench.gpu_steps.entries import Entry, entry_from_json

_LOOK_S = 0.1
_PROGRESS_S = 10.0
_MOST_WORDS = 300


@dataclass(frozen=True)
class Step:
    """The work of one process.

    Args:
        name: of the step.
        where: `module:function` under `launch.bench.gpu_steps`.
        share: which of how many processes that share the step's work this is.
    """

    name: str
    where: str = ""
    share: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Slot:
    """A stretch of a part's time, and the steps that run in it at the same time.

    Args:
        seconds: its share of the part; what earlier slots left over comes on top.
        steps: each in a process of its own.
        least_s: with less than that left it is not worth starting.
    """

    seconds: float
    steps: tuple[Step, ...]
    least_s: float = 5.0


Command = Callable[[Step, float, str], Sequence[str]]
"""(step, seconds until its deadline, a folder of its slot) -> the command that prints entries as lines of JSON."""


class Runner:
    """Runs the slots of a part. Used from one thread.

    Args:
        command: what to start for a step.
        take: called with every entry at once.
        say: called with lines about progress.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        command: Command,
        take: Callable[[Entry], None],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._command, self._take, self._say, self._clock = command, take, say, clock

    def run(self, part: str, slots: Sequence[Slot], seconds: float) -> None:
        """Run a part within its time.

        Args:
            part: its name.
            slots: in their order.
            seconds: of the whole part; slots that no time is left for are skipped, and said to be.
        """
        planned = self._clock()
        end = planned + seconds
        for slot in slots:
            planned += slot.seconds
            deadline = min(planned, end)
            left_s = deadline - self._clock()
            if left_s < slot.least_s:
                spent = "the part's time is spent" if planned > end else "its time is spent"
                for step in slot.steps:
                    self._take(Entry("skipped", part, step.name, note=f"{spent}: {max(0.0, left_s):.0f} s were left"))
                continue
            self._say(self._status(part, slot, deadline, end))
            self._run_slot(part, slot, deadline, end)

    def _run_slot(self, part: str, slot: Slot, deadline: float, end: float) -> None:
        said_at = self._clock()
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            running = []
            for step in slot.steps:
                child = _Child(part, step, self._command(step, deadline - self._clock(), folder), self._clock)
                stack.callback(child.close)  # on Ctrl-C too
                running.append(child)
            while running and self._clock() < deadline:
                _wait_for_output(running, min(_LOOK_S, max(0.0, deadline - self._clock())))
                for child in list(running):
                    self._take_all(child.read())
                    if child.has_exited():
                        running.remove(child)
                        self._take_all(child.read())
                        child.end()
                        self._take(child.verdict())
                if self._clock() - said_at >= _PROGRESS_S:
                    said_at = self._clock()
                    self._say(self._status(part, slot, deadline, end))
            for child in running:
                self._take_all(child.read())
                child.end()
                self._take_all(child.read())
                self._take(child.verdict(killed=True))

    def _take_all(self, entries: Iterator[Entry]) -> None:
        for entry in entries:
            self._take(entry)

    def _status(self, part: str, slot: Slot, deadline: float, end: float) -> str:
        now = self._clock()
        names = " and ".join(dict.fromkeys(step.name for step in slot.steps))
        return f"-- part {part}, {_minutes(end - now)} left: {names}, at most {_minutes(deadline - now)}"


class _Child:
    """A step's process: leader of a process group of its own, whose standard output is entries."""

    def __init__(self, part: str, step: Step, command: Sequence[str], clock: Callable[[], float]):
        self._part, self._step, self._clock = part, step, clock
        self._begun = clock()
        self._rest = b""
        self._code: int | None = None
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._words,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.output: IO[bytes] = self._process.stdout
        os.set_blocking(self.output.fileno(), False)

    def read(self) -> Iterator[Entry]:
        """Yield the entries that have come since."""
        while True:
            try:
                block = os.read(self.output.fileno(), 65_536)
            except BlockingIOError:
                break
            if not block:
                break
            self._rest += block
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            try:
                entry = entry_from_json(json.loads(line))
            except ValueError:
                continue  # something else than the step printed to its standard output
            yield replace(entry, part=self._part, step=self._step.name)

    def has_exited(self) -> bool:
        """Return whether the process has exited. It is not reaped yet, so its group's number is still its own."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> None:
        """Kill the process and all that it has started, and keep its exit code; a second call does nothing."""
        if self._code is not None:
            return
        descendants = []
        with contextlib.suppress(psutil.Error):
            descendants = psutil.Process(self._process.pid).children(recursive=True)  # some may have left the group
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in descendants:
            with contextlib.suppress(psutil.Error):
                process.kill()
        try:
            self._code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:  # inside a driver that does not let go
            self._code = -signal.SIGKILL

    def close(self) -> None:
        """End it if that has not been done, and close its files."""
        self.end()
        self.output.close()
        self._words.close()

    def verdict(self, killed: bool = False) -> Entry:
        """Return how it ended, once it has."""
        seconds = self._clock() - self._begun
        words = self._last_words()
        part, name = self._part, self._step.name
        if killed:
            return Entry(
                "failed", part, name, note=f"killed at its deadline after {seconds:.0f} s; last words: {words}"
            )
        if self._code:
            how = f"signal {-self._code}" if self._code < 0 else f"exit code {self._code}"
            return Entry("failed", part, name, note=f"{words} ({how}, after {seconds:.0f} s)")
        return Entry("ended", part, name, note=f"after {seconds:.1f} s", details={"seconds": round(seconds, 2)})

    def _last_words(self) -> str:
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - 8192))
        lines = [line.strip() for line in self._words.read().decode(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "none")
        return last if len(last) <= _MOST_WORDS else last[: _MOST_WORDS - 3] + "..."


def _wait_for_output(children: Sequence[_Child], seconds: float) -> None:
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.output, selectors.EVENT_READ)
        begun = time.monotonic()
        if selector.select(seconds) and time.monotonic() - begun < 0.01:
            time.sleep(0.01)  # an output that was closed is always ready


def _minutes(seconds: float) -> str:
    return f"{max(0, int(seconds)) // 60}:{max(0, int(seconds)) % 60:02d}"
