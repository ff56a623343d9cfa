"""The GPU check, two parts of five minutes each: correctness and speed of updates (A), whole runs on Pong (B)."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

from laser.config import Problem
from launch.bench.gpu_steps.child import command
from launch.bench.gpu_steps.entries import EntriesFile, Entry
from launch.bench.gpu_steps.plan import PARTS, seconds_of, slots_of, steps_of
from launch.bench.gpu_steps.runner import Runner
from launch.bench.gpu_steps.table import table
from launch.errors import StoppedError
from launch.settings.train_config import find_device_problems


@dataclass(frozen=True)
class Options:
    """Choice of the steps, and of the file for their results."""

    device: Annotated[str, "cuda, or cpu: the same steps without a GPU, with stand-ins for parts of a GPU"] = "cuda"
    quick: Annotated[bool, "tiny sizes, each part within 85 seconds: a trial of every step, no measurement"] = False
    part: Annotated[
        Literal["both", "A", "B"], "A: ceilings, tests, losses, updates; B: whole runs, learning, a sweep"
    ] = "both"
    step: Annotated[str, "only steps with this text in their names, which then share the part's time"] = ""
    out: Annotated[Path | None, "file to which every result is appended at once, one line of JSON each"] = None
    json: Annotated[bool, "print one JSON object"] = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The chosen parts."""
        return tuple(PARTS) if self.part == "both" else (self.part,)

    def problems(self) -> Iterator[Problem]:
        """Yield a problem if no step would run."""
        if not any(slots_of(part, self.quick, self.step) for part in self.parts):
            names = ", ".join(dict.fromkeys(step.name for part in self.parts for step in steps_of(part)))
            yield Problem("step", f"no step has {self.step!r} in its name", f"steps are {names}")

    def single_problems(self) -> Iterator[Problem]:
        """Yield the reasons why the device cannot be used."""
        if self.device not in ("cuda", "cpu"):
            yield Problem("device", f"must be cuda or cpu, got {self.device!r}")
        else:
            yield from find_device_problems("device", self.device)


def run(options: Options) -> dict[str, Any]:
    """Run the steps of the chosen parts, each in a process of its own, and print every result at once.

    Raises:
        ConfigError: the file cannot be written.
        StoppedError: SIGTERM came.
    """
    started = time.monotonic()
    entries: list[Entry] = []
    stream = sys.stderr if options.json else sys.stdout  # with --json, standard output has only the object

    def say(line: str) -> None:
        print(line, file=stream, flush=True)

    with EntriesFile(options.out) as file, _ending_on_sigterm(options.out):

        def take(entry: Entry) -> None:
            file.append(entry)
            entries.append(entry)
            say(str(entry))

        from launch.bench.gpu_steps.machine import machine_facts  # imports torch

        facts = machine_facts(options.device)
        take(Entry("machine", details={**facts, "device": options.device, "quick": options.quick}))
        runner = Runner(
            lambda step, seconds, folder: command(
                step, seconds, folder, options.device, options.quick, _known(entries)
            ),
            take,
            say,
        )
        for part in options.parts:
            runner.run(part, slots_of(part, options.quick, options.step), seconds_of(options.quick))
    say(f"\n{table(entries)}\n")
    counts = {kind: sum(entry.kind == kind for entry in entries) for kind in ("result", "skipped", "failed")}
    summary = {
        "results": counts["result"],
        "skipped": counts["skipped"],
        "failed": counts["failed"],
        "seconds": time.monotonic() - started,
        "machine": f"{facts['processor']}, {facts['cores']} cores, GPU {facts['GPU']}",
    }
    return {"entries": [entry.to_json() for entry in entries], **summary} if options.json else summary


def _known(entries: list[Entry]) -> dict[str, float]:
    """Return the results that later steps use: the ceilings."""
    return {
        f"{entry.step}: {entry.name}": entry.value
        for entry in entries
        if entry.kind == "result" and entry.step == "ceilings" and entry.value is not None
    }


@contextmanager
def _ending_on_sigterm(out: Path | None) -> Iterator[None]:
    """Let SIGTERM end the check and its processes as Ctrl-C does; outside the main thread do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        kept = f"the results so far are in {out}" if out else "--out FILE would have kept the results so far"
        raise StoppedError("stopped", "by SIGTERM", kept, exit_code=128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
