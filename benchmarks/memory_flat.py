"""Growth of the memory, file descriptors and threads of a run while it trains on Pong, over all of its processes.

    python benchmarks/memory_flat.py                                     threads, 20 minutes
    python benchmarks/memory_flat.py --minutes 120 --settled 20 --words "--runtime ray --schedule free --num-actors 2"

Reports the growth from `--settled` minutes after the start (everything is imported, compiled and allocated, and the
shards are full) to the end, also between the means of the first and the last tenth of that time, and what each process
has gained. Memory is what only these processes hold (USS). Target: flat within 2 %; descriptors and threads constant.
Each minute is a line on standard error; Ctrl-C reports what was seen so far.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import measure
import psutil

_WORTH_A_LINE = 1_000_000  # bytes
_LOOK_S, _LINE_S = 5.0, 60.0


class Held(NamedTuple):
    """Resources of a process, or of all of them."""

    bytes: int
    descriptors: int
    threads: int


class Look(NamedTuple):
    """A moment: seconds since the start, and what each process of the run holds, by its name and id."""

    seconds: float
    parts: dict[str, Held]

    @property
    def whole(self) -> Held:
        """Sum over all processes."""
        return Held(*map(sum, zip(*self.parts.values(), strict=True)))


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--settled", type=float, default=2.0, help="minutes after which growth counts")
    parser.add_argument("--preset", default="pong")
    parser.add_argument("--words", default="", help="further words of the command, in one argument")
    parser.add_argument("--pid", type=int, help="watch this running process instead of starting a run")
    options = parser.parse_args()
    if options.quick:
        options.minutes, options.settled = 1.0, 0.5
    with tempfile.TemporaryDirectory() as place:
        looks: list[Look] = []
        problem = ""
        if options.pid is not None:
            problem = watch(options.pid, 60.0 * options.minutes, looks)
        else:
            command = [*measure.LASER, "train", options.preset, "--steps", "100000000", "--stop-at-return", "inf"]
            words = [*shlex.split(options.words), "--quiet", "--run-dir", str(Path(place) / "run")]
            # In a session of its own, so that Ctrl-C ends the watching first.
            run = subprocess.Popen([*command, *words], cwd=measure.ROOT, start_new_session=True)
            try:
                problem = watch(run.pid, 60.0 * options.minutes, looks)
            finally:
                run.send_signal(signal.SIGTERM)
                run.wait(timeout=120.0)
    settled = [look for look in looks if look.seconds >= 60.0 * options.settled]
    if not settled:
        raise measure.BenchmarkError(f"the run was not watched for {options.settled:g} minutes")
    measure.save("memory_flat", vars(options), looks, [*([problem] if problem else []), *conclusions_of(settled)])


def conclusions_of(looks: Sequence[Look]) -> list[str]:
    """Return what the settled part of a run shows."""
    tenth = max(1, len(looks) // 10)
    ends = looks[:tenth], looks[-tenth:]
    first, last = (statistics.fmean(look.whole.bytes for look in part) for part in ends)
    minutes = (looks[0].seconds / 60.0, looks[-1].seconds / 60.0)
    found = [
        f"from minute {minutes[0]:.0f} to {minutes[1]:.0f}: {first / 1e9:.3f} GB in the first tenth, "
        f"{last / 1e9:.3f} GB in the last ({100 * (last - first) / first:+.2f} %)"
    ]
    counts = {name: [getattr(look.whole, name) for look in looks] for name in ("descriptors", "threads")}
    for name, values in {**counts, "processes": [len(look.parts) for look in looks]}.items():
        found.append(f"{name}: {values[0]} at first, {values[-1]} at last, {min(values)} to {max(values)} between")
    return found + growth_of_parts(looks[0].parts, looks[-1].parts)


def growth_of_parts(before: Mapping[str, Held], after: Mapping[str, Held]) -> list[str]:
    """Return a line for each process that holds more or less than at first, the largest growth of memory first."""
    nothing = Held(0, 0, 0)
    changes = {
        name: Held(*(new - old for new, old in zip(after.get(name, nothing), before.get(name, nothing), strict=True)))
        for name in {**before, **after}
    }
    return [
        f"  {name}: {change.bytes / 1e6:+.1f} MB, {change.descriptors:+} descriptors, {change.threads:+} threads"
        for name, change in sorted(changes.items(), key=lambda item: -item[1].bytes)
        if abs(change.bytes) >= _WORTH_A_LINE or change.descriptors or change.threads
    ]


def watch(pid: int, seconds: float, looks: list[Look]) -> str:
    """Look at a run every five seconds, from now on, until its time is over; return why it ended earlier, or ""."""
    begun, said = time.monotonic(), 0.0
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() - begun < seconds:
            time.sleep(_LOOK_S)
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return f"run {pid} ended before its time was over"
            look = look_at(pid, time.monotonic() - begun)
            looks.append(look)
            if look.seconds >= said + _LINE_S:
                said = look.seconds
                print(line_of(look), file=sys.stderr, flush=True)
        return ""
    return "stopped by Ctrl-C"


def line_of(look: Look) -> str:
    """Return a moment in one line, with the three processes that hold most memory."""
    largest = sorted(look.parts.items(), key=lambda item: -item[1].bytes)[:3]
    return (
        f"minute {look.seconds / 60.0:.0f}: {look.whole.bytes / 1e9:.3f} GB, {look.whole.descriptors} descriptors, "
        f"{look.whole.threads} threads; " + ", ".join(f"{name} {held.bytes / 1e6:.0f} MB" for name, held in largest)
    )


def look_at(pid: int, seconds: float) -> Look:
    """Return what a process and its children hold."""
    run, parts = psutil.Process(pid), {}
    for process in (run, *run.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            held = Held(process.memory_full_info().uss, process.num_fds(), process.num_threads())
            parts[f"{name_of(process)} {process.pid}"] = held
    return Look(seconds, parts)


def name_of(process: psutil.Process) -> str:
    """Return the class that Ray names a process after, or the name of its program."""
    title = " ".join(process.cmdline())
    # While a method runs, its name is a part of the title.
    return re.split("[. ]", title)[0] if title.startswith("ray::") else process.name()


if __name__ == "__main__":
    main()
