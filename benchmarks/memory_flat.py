"""Growth of the memory, file descriptors and threads of a run while it trains on Pong, over all of its processes.

    python benchmarks/memory_flat.py                                     threads, 20 minutes
    python benchmarks/memory_flat.py --minutes 120 --settled 20 --words "--runtime ray --schedule free --num-actors 2"

Reports the growth from `--settled` minutes after the start (everything is imported, compiled and allocated, and the
shards are full) to the end, and between the means of the first and the last tenth of that time. Memory is what only
these processes hold (USS). Target: flat within 2 %; descriptors and threads constant.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import measure
import psutil


class Look(NamedTuple):
    """A moment: seconds since the start, and bytes, file descriptors, threads and processes of the whole run."""

    seconds: float
    bytes: int
    descriptors: int
    threads: int
    processes: int


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
        if options.pid is not None:
            watch(options.pid, 60.0 * options.minutes, looks)
        else:
            command = [*measure.LASER, "train", options.preset, "--steps", "100000000", "--stop-at-return", "inf"]
            words = [*shlex.split(options.words), "--quiet", "--run-dir", str(Path(place) / "run")]
            run = subprocess.Popen([*command, *words], cwd=measure.ROOT)
            try:
                watch(run.pid, 60.0 * options.minutes, looks)
            finally:
                run.send_signal(signal.SIGTERM)
                run.wait(timeout=120.0)
    settled = [look for look in looks if look.seconds >= 60.0 * options.settled]
    measure.save("memory_flat", vars(options), looks, conclusions_of(settled))


def conclusions_of(looks: Sequence[Look]) -> list[str]:
    """Return what the settled part of a run shows."""
    tenth = max(1, len(looks) // 10)
    first, last = (statistics.fmean(look.bytes for look in part) for part in (looks[:tenth], looks[-tenth:]))
    minutes = (looks[0].seconds / 60.0, looks[-1].seconds / 60.0)
    found = [
        f"from minute {minutes[0]:.0f} to {minutes[1]:.0f}: {first / 1e9:.3f} GB in the first tenth, "
        f"{last / 1e9:.3f} GB in the last ({100 * (last - first) / first:+.2f} %)"
    ]
    for name in ("descriptors", "threads", "processes"):
        values = [getattr(look, name) for look in looks]
        found.append(f"{name}: {values[0]} at first, {values[-1]} at last, {min(values)} to {max(values)} between")
    return found


def watch(pid: int, seconds: float, looks: list[Look]) -> None:
    """Look at a run every five seconds, from now on."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(5.0)
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            raise measure.BenchmarkError(f"run {pid} ended before its time was over")
        looks.append(look_at(pid, time.monotonic() - begun))


def look_at(pid: int, seconds: float) -> Look:
    """Return what a process and its children hold."""
    run = psutil.Process(pid)
    held = [0, 0, 0, 0]
    for process in (run, *run.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            found = (process.memory_full_info().uss, process.num_fds(), process.num_threads(), 1)
            held = [whole + part for whole, part in zip(held, found, strict=True)]
    return Look(seconds, *held)


if __name__ == "__main__":
    main()
