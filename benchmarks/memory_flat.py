"""Growth of the process's memory while it trains on Pong.

Reports the growth from two minutes after the start (everything is imported, compiled and allocated) to the end.
Target: flat over 20 minutes.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from pathlib import Path

import measure
import psutil


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--settled", type=float, default=2.0, help="minutes after which growth counts")
    parser.add_argument("--preset", default="pong")
    parser.add_argument("--pid", type=int, help="watch this running process instead of starting a run")
    options = parser.parse_args()
    if options.quick:
        options.minutes, options.settled = 1.0, 0.5
    with tempfile.TemporaryDirectory() as place:
        sizes: list[tuple[float, int]] = []
        if options.pid is not None:
            watch(options.pid, 60.0 * options.minutes, sizes)
        else:
            command = [*measure.LASER, "train", options.preset, "--steps", "100000000", "--quiet"]
            run = subprocess.Popen([*command, "--run-dir", str(Path(place) / "run")], cwd=measure.ROOT)
            try:
                watch(run.pid, 60.0 * options.minutes, sizes)
            finally:
                run.send_signal(signal.SIGTERM)
                run.wait(timeout=120.0)
    settled = [size for when, size in sizes if when >= 60.0 * options.settled]
    grown = settled[-1] - settled[0]
    conclusion = (
        f"{settled[0] / 1e9:.3f} GB after {options.settled:g} minutes, {settled[-1] / 1e9:.3f} GB after "
        f"{options.minutes:g}: {grown / 1e6:+.1f} MB ({100 * grown / settled[0]:+.2f} %)"
    )
    measure.save("memory_flat", vars(options), sizes, [conclusion])


def watch(pid: int, seconds: float, sizes: list[tuple[float, int]]) -> None:
    """Return the memory of a run every five seconds, as pairs of seconds since the call and bytes."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(5.0)
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            raise measure.BenchmarkError(f"run {pid} ended before its time was over")
        sizes.append((time.monotonic() - begun, resident(pid)))


def resident(pid: int) -> int:
    """Return the bytes that a process and its children have in memory."""
    process = psutil.Process(pid)
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


if __name__ == "__main__":
    main()
