"""Cost of recording: its share of the training time, and the size of `metrics.db` per 10,000 logged rows.

    python benchmarks/recording.py [--quick]                  about 6 minutes; --quick one

A logged row is one value of one metric at one moment (a row of `points`). The share is the CPU time, over all threads,
inside code that only exists to record (reports, writing, reads of the replay's statistics, quantiles of ages,
trackers), divided by the wall time of training: the cost if recording never ran in parallel with other work. Two runs,
one with and one without recording, differ by more than that for other reasons.

The counts of who learns from whom are measured too: a learner of 100 updates a second in a shared replay of 8, 64 and
256 members, whose batches of 16 unrolls hold those of any member.

Target: less than 1 % of the time, less than 1 MB per 10,000 rows.
"""

from __future__ import annotations

import functools
import sqlite3
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch

from laser import load_preset, train
from laser.ports import KEY_DTYPE, Report, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from launch.recording.process_usage import ProcessUsage
from launch.recording.recorder import Recorder
from launch.recording.replay_gauges import ReplayGauges
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick
from learner.experience.mixing import Mix
from learner.learner import Learner
from learner.metrics.age_quantiles import AgeQuantiles
from learner.metrics.consumption import Consumption
from learner.metrics.makers import Makers

# Methods that only exist to record; if one calls another, only the outer one counts.
_RECORDING = (
    (Recorder, "report"),
    (Recorder, "flush"),
    (Recorder, "snapshot"),
    (Recorder, "position"),
    (Learner, "report"),
    (Consumption, "add"),
    (Makers, "add"),
    (Makers, "take"),
    (ReplayGauges, "gauges"),
    (AgeQuantiles, "add"),
    (ProcessUsage, "newest"),
)
LIMIT_SHARE, LIMIT_MB = 0.01, 1.0
_UPDATES_A_SECOND, _ITEMS, _LENGTH = 100, 16, 20


class Meter:
    """Adds up CPU seconds inside chosen methods, by method; any thread."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside = threading.local()
        self._lock = threading.Lock()

    def watch(self, owner: type, name: str) -> Callable[[], None]:
        """Measure a method from now on; return what ends it."""
        method = getattr(owner, name)

        @functools.wraps(method)  # workers are called by the names of methods
        def measured(*arguments: Any, **named: Any) -> Any:
            if getattr(self._inside, "is_counting", False):
                return method(*arguments, **named)
            self._inside.is_counting, began = True, time.thread_time()
            try:
                return method(*arguments, **named)
            finally:
                # The meter's own time is subtracted: reading the clock takes as long as the smaller methods.
                ended = time.thread_time()
                seconds = ended - began - (time.thread_time() - ended)
                self._inside.is_counting = False
                with self._lock:
                    self.seconds[f"{owner.__name__}.{name}"] += seconds

        setattr(owner, name, measured)
        return lambda: setattr(owner, name, method)


def run(preset: str, values: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Train, and return the time spent on recording and the size of the record."""
    meter, run_dir = Meter(), directory / preset
    undo = [meter.watch(*what) for what in _RECORDING]
    try:
        result = train(load_preset(preset, {**values, "run_dir": str(run_dir), "quiet": True}), [])
    finally:
        for restore in undo:
            restore()
    shares = {name: seconds / result.seconds for name, seconds in meter.seconds.items()}
    return {
        "preset": preset,
        "env_steps": result.env_steps,
        "seconds": result.seconds,
        "env_steps_per_second": result.env_steps / result.seconds,
        "recording_share": sum(shares.values()),
        "shares": shares,
        **size_of(run_dir / "metrics.db"),
    }


def long_record(directory: Path, num_ticks: int, num_metrics: int = 70) -> dict[str, Any]:
    """Write the record of a long run, every metric new at every moment, and return its size and the time per moment."""
    path, rng = directory / "long.db", np.random.default_rng(0)
    with MetricsDb(path) as metrics:
        began = time.process_time()
        for number in range(num_ticks):
            values = dict(zip(map(str, range(num_metrics)), rng.normal(size=num_metrics).tolist(), strict=True))
            metrics.write(Tick(float(number), float(number), number, number, number), values)
        per_tick = (time.process_time() - began) / num_ticks
    return {"moments": num_ticks, "metrics": num_metrics, "cpu_ms_per_moment": 1e3 * per_tick, **size_of(path)}


def exchange(directory: Path, num_members: int, seconds: int) -> dict[str, Any]:
    """Count and record whose experience a learner learned from; return the CPU time per update and per second."""
    path, rng, makers = directory / f"exchange-{num_members}.db", np.random.default_rng(0), Makers(0)
    totals: defaultdict[str, float] = defaultdict(float)
    counting = writing = now = 0.0
    per_step = {name: torch.rand(1, _ITEMS) for name in ("accepted", "abs_log_rho", "kl")}
    with MetricsDb(path) as metrics:
        recorder = Recorder(metrics, in_turns=True, clock=lambda: now, interval_s=np.inf)
        recorder.begin()
        for second in range(seconds):
            mixes = [_mix(rng, num_members) for _ in range(_UPDATES_A_SECOND)]
            began = time.process_time()
            for mix in mixes:
                makers.add(mix, per_step)
            for name, value in makers.take().items():
                totals[name] += value
            counted = time.process_time()
            now = float(second)
            recorder.report(Report("learner", dict(totals)))
            recorder.flush()
            counting, writing = counting + counted - began, writing + time.process_time() - counted
        recorder.close()
    return {
        "members": num_members,
        "seconds": seconds,
        "updates_per_second": _UPDATES_A_SECOND,
        "counting_ms_per_update": 1e3 * counting / seconds / _UPDATES_A_SECOND,
        "writing_ms_per_second": 1e3 * writing / seconds,
        "share": (counting + writing) / seconds,
        **size_of(path),
    }


def _mix(rng: np.random.Generator, num_members: int) -> Mix:
    """Return a batch whose unrolls were made by any of the members."""
    headers = np.zeros(_ITEMS, HEADER_DTYPE)
    headers["member"] = rng.integers(num_members, size=_ITEMS)
    headers["parameter_version"] = rng.integers(1000, size=_ITEMS)
    unrolls = Unrolls(headers, {"valid": np.ones((_ITEMS, _LENGTH), bool)})
    return Mix(None, Sample(unrolls, np.zeros(_ITEMS, KEY_DTYPE), np.ones(_ITEMS), _ITEMS))


def size_of(path: Path) -> dict[str, Any]:
    """Return total bytes and rows of a `metrics.db`."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (rows,) = connection.execute(
            "SELECT (SELECT count(*) FROM points) + (SELECT count(*) FROM notes) + (SELECT count(*) FROM exchange)"
        ).fetchone()
    num_bytes = path.stat().st_size
    return {"bytes": num_bytes, "rows": rows, "mb_per_10000_rows": num_bytes / rows * 1e4 / 1e6}


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"


def main() -> None:
    """Run the benchmark."""
    arguments = measure.parser(__doc__).parse_args()
    seconds = 1 if arguments.quick else 6
    never = {"stop-at-return": float("inf")}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        results = [
            # Free-running: actors and learner report as often as they can.
            run("cartpole", {"runtime": "local", "steps": 60_000 * seconds, **never}, directory),
            run("mini", {"steps": 30_000 * seconds, **never}, directory),
            run("pong", {"steps": 8_000 * seconds, "evaluation.interval": 0, **never}, directory),
        ]
        record = long_record(directory, 2_000 * seconds)
        exchanges = [exchange(directory, num_members, 20 * seconds) for num_members in (8, 64, 256)]
    worst = max(result["recording_share"] for result in results)
    # After a run of seconds the file consists mostly of empty pages.
    largest = max(item["mb_per_10000_rows"] for item in [record, *results] if item["rows"] > 10_000)
    conclusions = [
        *(f"{item['preset']}: {100 * item['recording_share']:.2f} % of training time is recording" for item in results),
        f"worst: {100 * worst:.2f} %, to be below {100 * LIMIT_SHARE:g} %: {_verdict(worst < LIMIT_SHARE)}",
        f"metrics.db: {largest:.3f} MB per 10,000 rows, to be below {LIMIT_MB:g} MB: {_verdict(largest < LIMIT_MB)}",
        *(
            f"who learns from whom, {item['members']} members: {100 * item['share']:.2f} % of a learner's time "
            f"({item['counting_ms_per_update']:.3f} ms an update, {item['writing_ms_per_second']:.2f} ms a second; "
            f"{item['bytes'] / item['seconds'] / 1e3:.1f} kB a second)"
            for item in exchanges
        ),
        f"a moment of {record['metrics']} metrics takes {record['cpu_ms_per_moment']:.2f} ms to write, once a second",
    ]
    measure.save("recording", vars(arguments), {"runs": results, "long": record, "exchange": exchanges}, conclusions)


if __name__ == "__main__":
    main()
