"""Shared parts of the benchmarks: machine description, commands run alternately, medians, and a file of results.

A speed is a claim about one machine at one commit, so each result states both, and the load before every run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from launch.process_settings import prepare_process

# Every benchmark that computes in its own process imports this module before torch.
prepare_process()

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
CHANGED = "+changes"
"""End of the commit of a tree with changes that are not committed."""
LASER = (sys.executable, "-m", "launch")


class BenchmarkError(RuntimeError):
    """A command of a benchmark failed; the message ends with the last lines of its output."""


@dataclass(frozen=True)
class Summary:
    """Repeats of one number: all values, their median and their range."""

    values: tuple[float, ...]
    unit: str = ""

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.values)

    def __str__(self) -> str:
        """Say `median unit (lowest to highest, n=...)`."""
        low, high = min(self.values), max(self.values)
        return f"{self.median:,.6g} {self.unit} ({low:,.6g} to {high:,.6g}, n={len(self.values)})"


def describe_machine() -> dict[str, Any]:
    """Return processor, cores this process may use, memory in GiB, versions, commit and current load."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "laser": _version("laser-rl"),
        "commit": _commit(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def run_json(command: Sequence[str | Path | float], timeout_s: float, python_path: Path | str = "") -> dict:
    """Run a command and return the JSON object on the last line of its standard output.

    `load_before` and `wall_s` (imports included) are added to it. `python_path` is the command's PYTHONPATH.

    Raises:
        BenchmarkError: the command failed, took longer than `timeout_s`, or its last line is not a JSON object.
    """
    words = [str(word) for word in command]
    environment = {**os.environ, "PYTHONPATH": str(python_path)}
    load, begun = os.getloadavg()[0], time.perf_counter()
    try:
        done = subprocess.run(
            words, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{' '.join(words)}: no result after {timeout_s:g} s") from error
    lines = done.stdout.strip().splitlines()
    try:
        if done.returncode != 0:
            raise ValueError(f"exit code {done.returncode}")
        result = dict(json.loads(lines[-1]))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        last_words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise BenchmarkError(f"{' '.join(words)}: {error!r}\n{last_words}") from error
    return {**result, "load_before": round(load, 2), "wall_s": time.perf_counter() - begun}


def alternate(sides: Mapping[str, Callable[[int], dict]], repeats: int) -> dict[str, list[dict]]:
    """Run A, B, A, B, ..., so that a slow phase of the machine affects all sides.

    Args:
        sides: by name, a function that takes the repeat's number (from 1; used as seed) and returns one result.
        repeats: runs of each side.
    """
    results: dict[str, list[dict]] = {name: [] for name in sides}
    for repeat in range(1, repeats + 1):
        for name, side in sides.items():
            result = side(repeat)
            results[name].append(result)
            shown = {key: round(value, 2) for key, value in result.items() if isinstance(value, (int, float))}
            print(f"[{repeat}/{repeats}] {name}: {shown}", flush=True)
    return results


def summarise(results: Sequence[dict], key: str, unit: str = "") -> Summary:
    """Return the summary of one key over the repeats."""
    return Summary(tuple(float(result[key]) for result in results), unit)


def read_ticks(run_dir: Path) -> list[tuple[float, int]]:
    """Return (unix time, env steps) of every moment a run recorded; of several env steps at a time, the largest."""
    path = f"{(run_dir / 'metrics.db').resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(path, uri=True)) as connection:
        query = "SELECT wall_time, max(env_steps) FROM ticks GROUP BY wall_time ORDER BY wall_time"
        return connection.execute(query).fetchall()


def steady_rate(ticks: Sequence[tuple[float, int]], warm_up_s: float) -> float:
    """Return env steps/s without the first `warm_up_s` seconds of progress, in which code compiles and queues fill."""
    moving = [tick for tick in ticks if tick[1] > 0]
    if len(moving) < 2 or moving[-1][0] - moving[0][0] < 2 * warm_up_s:
        raise BenchmarkError(f"the run is too short for a warm-up of {warm_up_s:g} s; give it more env steps")
    window = [tick for tick in moving if tick[0] >= moving[0][0] + warm_up_s]
    return (window[-1][1] - window[0][1]) / (window[-1][0] - window[0][0])


def save(name: str, settings: Mapping[str, Any], results: Any, conclusions: Sequence[str]) -> Path:
    """Print the conclusions and write all results to `benchmarks/results/NAME.json`; return the path.

    With `settings["quick"]` the file is `NAME-quick.json`.
    """
    machine = describe_machine()
    # A quick check must not replace a measurement.
    path = RESULTS / (f"{name}-quick.json" if settings.get("quick") else f"{name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine,
        "when": time.strftime("%Y-%m-%d %H:%M:%S"),
        "settings": dict(settings),
        "conclusions": list(conclusions),
        "results": results,
    }
    path.write_text(json.dumps(content, indent=1, default=_plain) + "\n", encoding="utf-8")
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    for line in conclusions:
        print(line)
    print(f"written: {path.relative_to(ROOT)}")
    return path


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows the script's own docstring and knows `--quick`."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="one short repeat that checks the script; not a measurement")
    return made


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    # Results are written while a benchmark goes on, and change nothing of what it measures.
    changed = git("status", "--porcelain", "-uno", "--", ".", ":!benchmarks/rows", ":!docs")
    return git("rev-parse", "--short", "HEAD") + (CHANGED if changed else "")


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
