"""The runner of the GPU check: slots one after the other, with each step in a process of its own and a deadline.

A step that hangs is killed at its deadline with its child processes; the entries that it reported before count.
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

_POLL_S = 0.1
_PROGRESS_S = 10.0
_MOST_WORDS = 300
_MOST_REPORT = 8000


@dataclass(frozen=True)
class Step:
    """The work of one process.

    Args:
        name: of the step.
        where: `module:function` under `launch.bench.gpu_steps`.
        share: (index, count) among the processes that divide the step's work.
    """

    name: str
    where: str = ""
    share: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Slot:
    """A span of a part's time, and the steps that run in it at the same time.

    Args:
        seconds: its share of the part; it also gets the time that earlier slots left over.
        steps: each in a process of its own.
        least_s: with less time left the slot is skipped.
    """

    seconds: float
    steps: tuple[Step, ...]
    least_s: float = 5.0


Command = Callable[[Step, float, str], Sequence[str]]
"""(step, seconds until its deadline, a folder of its slot) -> the command that prints entries as lines of JSON."""


class Runner:
    """Runs the slots of a part. Used from one thread.

    Args:
        command: returns the command line of a step.
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
            seconds: of the whole part; slots without time left are skipped and reported.
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
                _wait_for_output(running, min(_POLL_S, max(0.0, deadline - self._clock())))
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
    """A step's process: leader of its own process group, with entries on its standard output."""

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
        """Yield the entries that have arrived since the last call."""
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
                continue  # a line on standard output that is no entry of the step
            yield replace(entry, part=self._part, step=self._step.name)

    def has_exited(self) -> bool:
        """Return whether the process has exited. It is not reaped yet, so no other process gets its group's number."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> None:
        """Kill the process and its descendants, and keep its exit code; a second call does nothing."""
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
        except subprocess.TimeoutExpired:  # blocked inside a driver
            self._code = -signal.SIGKILL

    def close(self) -> None:
        """End the process if it still runs, and close its files."""
        self.end()
        self.output.close()
        self._words.close()

    def verdict(self, killed: bool = False) -> Entry:
        """Return the entry about the end of the process, after `end`."""
        seconds = self._clock() - self._begun
        text = self._last_text()
        words = _last_words(text)
        details = {"report": text}
        part, name = self._part, self._step.name
        if killed:
            note = f"killed at its deadline after {seconds:.0f} s; last words: {words}"
            return Entry("failed", part, name, note=note, details=details)
        if self._code:
            how = f"signal {-self._code}" if self._code < 0 else f"exit code {self._code}"
            return Entry("failed", part, name, note=f"{words} ({how}, after {seconds:.0f} s)", details=details)
        return Entry("ended", part, name, note=f"after {seconds:.1f} s", details={"seconds": round(seconds, 2)})

    def _last_text(self) -> str:
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - _MOST_REPORT))
        return self._words.read().decode(errors="replace")


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "none")
    return last if len(last) <= _MOST_WORDS else last[: _MOST_WORDS - 3] + "..."


def _wait_for_output(children: Sequence[_Child], seconds: float) -> None:
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.output, selectors.EVENT_READ)
        begun = time.monotonic()
        if selector.select(seconds) and time.monotonic() - begun < 0.01:
            time.sleep(0.01)  # a closed output always counts as ready


def _minutes(seconds: float) -> str:
    return f"{max(0, int(seconds)) // 60}:{max(0, int(seconds)) % 60:02d}"
