"""Returns over the age of the experience that is learned from: which correction stands stale experience?

    python benchmarks/staleness.py cartpole --seeds 1      # measure what is missing
    python benchmarks/results.py --page                    # write the page and the picture

All experience of a batch is replayed and a chosen number of updates old (`--replay.sampler delayed`). Every arm has the
same tasks, seeds, networks and step sizes; only the correction differs. A finished run is in the task's file at once.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import measure

from launch.records.metrics_db import read_series
from launch.report import pictures
from launch.report.pictures import Line, Panel

FOLDER = measure.ROOT / "benchmarks" / "rows"
AGES = (0, 16, 64, 256, 1024)
LAST = 0.2  # share of the env steps whose episodes make the final return
_ALL_STALE = "--algorithm.replay-fraction 1 --replay.sampler delayed --algorithm.entropy-on all --replay.min-steps 512"
_NO_REJECTION = "--algorithm.trust-region-threshold inf"


@dataclass(frozen=True)
class Task:
    """A task of the grid: its title, and the arguments of `laser train` without seed, arm and age."""

    title: str
    words: str
    steps: int
    seeds: tuple[int, ...] = (11, 12, 13, 14, 15)


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        "cartpole --stop-at-return 501 --algorithm.batch-size 8 --replay.samples-per-insert 8 "
        "--replay.capacity-steps 100000",
        100_000,
    ),
    "space_invaders": Task(
        "MinAtar SpaceInvaders",
        "minatar --env MinAtar/SpaceInvaders-v1 --replay.samples-per-insert 4 --algorithm.normalize-advantages scale",
        150_000,
    ),
}
ARMS = {
    "V-trace": _NO_REJECTION,
    # One update a batch: the proximal policy is the current one, and what is left of the clipping is the bound.
    "decoupled clipping (bound 5)": f"{_NO_REJECTION} --algorithm.pg-rho-clip 5",
    "second moment (0.04)": "--algorithm.rejection second_moment",
    "ReF-ER": f"{_NO_REJECTION} --algorithm.refer.enabled true",
    "trust region (0.03)": "--algorithm.trust-region-threshold 0.03",
}


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("tasks", nargs="+", choices=list(TASKS), help="tasks to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many seeds; 0: all of the task")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    options = parser.parse_args()
    for name in options.tasks:
        measure_task(name, options.seeds, options.jobs)


def measure_task(name: str, num_seeds: int, jobs: int) -> None:
    """Run what the task's file lacks: for each seed every age of every arm."""
    task, lock = TASKS[name], Lock()
    wanted = [(arm, age, seed) for seed in task.seeds[: num_seeds or None] for age in AGES for arm in ARMS]

    def run(case: tuple[str, int, int]) -> None:
        arm, age, seed = case
        if str(seed) in read(name)["arms"].get(arm, {}).get(str(age), {}):
            return
        result = train(task, arm, age, seed)
        with lock:
            results, machine = read(name), measure.describe_machine()
            results["machine"] = f"{machine['processor']}, {machine['cores']} cores"
            of_age = results["arms"].setdefault(arm, {}).setdefault(str(age), {})
            of_age[str(seed)] = {**result, "commit": machine["commit"]}
            write(name, results)
        print(f"{name}: {arm}, {age} updates old, seed {seed}: {result['value']:.1f}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, wanted))


def train(task: Task, arm: str, age: int, seed: int) -> dict[str, Any]:
    """Return the final return of a run, `value`, and its `seconds`."""
    words = f"{task.words} {_ALL_STALE} {ARMS[arm]} --replay.sampler-settings.versions {age}".split()
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "run"
        command = [*measure.LASER, "train", *words, "--steps", task.steps, "--seed", seed, "--run-dir", run_dir]
        result = measure.run_json([*command, "--quiet", "--json"], timeout_s=3600.0)
        returns = read_series(run_dir / "metrics.db", "charts/episodic_return")
    last = [value for at, value in returns if at > (1 - LAST) * task.steps]
    return {"value": round(statistics.fmean(last), 3) if last else 0.0, "seconds": round(result["seconds"], 1)}


def measured() -> list[str]:
    """Return the names of the tasks that have a file."""
    return [name for name in TASKS if _path(name).exists()]


def section(name: str) -> list[str]:
    """Return the lines of a task for docs/results.md."""
    task, results = TASKS[name], read(name)
    lines = ["", f"## Stale experience: {task.title}", "", f"![{task.title}](pictures/results/stale_{name}.png)", ""]
    lines += [
        "All experience is replayed; it is the given number of updates old. Share of the fresh return that is left,"
    ]
    lines += [f"medians over seeds (final return, lowest to highest), {task.steps:,} env steps.", ""]
    lines += ["| | " + " | ".join(f"{age:,}" for age in AGES) + " |", "|---|" + "---|" * len(AGES)]
    for arm, of_age in results["arms"].items():
        fresh = statistics.median(_values(of_age, 0))
        cells = [_cell(_values(of_age, age), fresh) for age in AGES]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return [*lines, "", f"`python benchmarks/staleness.py {name}`, {results['machine']}."]


def draw(name: str) -> bytes:
    """Return the picture of a task: a line for each arm, with the range over seeds."""
    lines = []
    for arm, of_age in read(name)["arms"].items():
        ages = [age for age in AGES if _values(of_age, age)]
        values = [_values(of_age, age) for age in ages]
        points = [(AGES.index(age), statistics.median(each)) for age, each in zip(ages, values, strict=True)]
        lines.append(Line(arm, points, band=[(min(each), max(each)) for each in values]))
    axis = f"age of the experience: {', '.join(map(str, AGES))} updates"
    return pictures.draw([Panel(axis, "final return", lines)], TASKS[name].title)


def read(name: str) -> dict[str, Any]:
    """Return a task's file, or an empty one: by arm, age and seed, `value`, `seconds` and `commit`."""
    path = _path(name)
    found: dict[str, Any] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"machine": "", "arms": {}}
    )
    return found


def write(name: str, results: Mapping[str, Any]) -> None:
    """Write a task's file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    _path(name).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _path(name: str) -> Path:
    return FOLDER / f"stale_{name}.json"


def _values(of_age: Mapping[str, Any], age: int) -> list[float]:
    return [run["value"] for run in of_age.get(str(age), {}).values()]


def _cell(values: Sequence[float], fresh: float) -> str:
    if not values:
        return ""
    return f"{statistics.median(values) / fresh:.0%} ({min(values):.0f} to {max(values):.0f})"


if __name__ == "__main__":
    main()
