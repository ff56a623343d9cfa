"""Shared parts of the claims: arms that are tuned and run with several seeds, medians, intervals, a picture.

An arm is a way to train. Every arm is tuned over the same grid with seeds that the comparison does not use, so that no
arm owes its rank to settings chosen for another. Runs are lockstep and single-threaded, so they repeat bit by bit. As
many run in parallel as there are cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import multiprocessing
import os
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import measure

PICTURES = measure.ROOT / "docs" / "pictures" / "claims"
NUM_POINTS = 60
# Metrics that are kept beside the returns, by how their names begin.
_NUMBERS = (
    *("accept_fraction", "abs_log_rho", "entropy", "policy_lag", "kl_from", "far_fraction", "refer_beta"),
    *("sampled_", "stored_", "effective_draws", "times_replayed", "sampler/"),
)
_FIRST_TUNING_SEED = 1_000
TRAINING, EVALUATIONS = "charts/mean_return", "evaluation/mean_return"
_CURVES = {TRAINING: "mean return of the last 20 episodes", EVALUATIONS: "mean return of an evaluation"}


@dataclass(frozen=True)
class Arm:
    """One way to train: a label for the legend and what it changes, by the command line's keys."""

    label: str
    values: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] | None = None
    """What this arm is tuned over, where that differs from the other arms'."""


@dataclass(frozen=True)
class Job:
    """One training run; `curve` is the metric of returns."""

    preset: str
    values: Mapping[str, Any]
    seed: int
    curve: str = TRAINING

    def changed(self, values: Mapping[str, Any], seed: int) -> Job:
        """Return the run that differs in these values and has this seed."""
        return dataclasses.replace(self, values={**self.values, **values}, seed=seed)


@dataclass(frozen=True)
class Outcome:
    """Returns of one arm on one task, at `NUM_POINTS` equally spaced env steps; one row per seed.

    Args:
        label: of the arm.
        settings: the settings that tuning chose.
        returns: float [seeds, points], mean return of the last 20 training episodes, or of the newest evaluation; of a
            sweep, the members' mean.
        numbers: means over a run's later half by metric, one value per seed.
        best: like `returns`, for the best member at each point; None without a sweep.
    """

    label: str
    settings: dict[str, Any]
    returns: np.ndarray
    numbers: dict[str, list[float]]
    best: np.ndarray | None = None

    @property
    def final(self) -> np.ndarray:
        """Return the mean over the last tenth of each run."""
        return self.returns[:, -max(1, NUM_POINTS // 10) :].mean(1)

    @property
    def area(self) -> np.ndarray:
        """Return the mean over all of each run: the area under its curve over its length."""
        return self.returns.mean(1)


def run_job(job: Job) -> dict[str, Any]:
    """Train once and return the curve and the later half's metrics. Runs in a separate process."""
    import torch

    from launch.presets import load_preset
    from launch.train import train

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        fixed = {"seed": job.seed, "run-dir": Path(place) / "run", "runtime": "lockstep", "quiet": True}
        config = load_preset(job.preset, {**job.values, **fixed})
        result = train(config)
        return {"seconds": result.seconds, **read_run(Path(place) / "run", config.steps, job.curve)}


def run_sweep(job: Job) -> dict[str, Any]:
    """Train a sweep and return its members' mean and best.

    The job's values `sweep/grid` and `sweep/share` define the sweep; all others are settings of the command line.
    """
    import torch

    from launch.presets import load_preset
    from launch.sweeps.sweep import sweep
    from launch.sweeps.sweep_config import SweepConfig, SweepOptions

    torch.set_num_threads(1)
    values = dict(job.values)
    grid, share = values.pop("sweep/grid"), values.pop("sweep/share")
    with tempfile.TemporaryDirectory() as place:
        fixed = {"seed": job.seed, "run-dir": Path(place) / "sweep", "runtime": "lockstep", "quiet": True}
        base = load_preset(job.preset, {**values, **fixed})
        result = sweep(SweepConfig(base, grid, SweepOptions(share_replay=share)))
        failed = [member.error for member in result.members if member.error]
        if failed:
            raise measure.BenchmarkError(failed[0])
        members = [read_run(member.result.run_dir, base.steps, job.curve) for member in result.members]
    curves = np.array([member["returns"] for member in members])
    names = set.intersection(*(set(member["numbers"]) for member in members))
    return {
        "seconds": result.seconds,
        "returns": curves.mean(0).tolist(),
        "best": curves.max(0).tolist(),
        "numbers": {name: float(np.mean([member["numbers"][name] for member in members])) for name in names},
    }


def steps_to(curves: np.ndarray, goal: float, num_steps: int) -> np.ndarray:
    """Return the env steps at which each curve [seeds, points] first reaches `goal`; infinity if it never does."""
    reached = curves >= goal
    first = reached.argmax(1) + 1
    return np.where(reached.any(1), first * num_steps / NUM_POINTS, np.inf)


def read_run(run_dir: Path, num_steps: int, curve: str) -> dict[str, Any]:
    """Return `returns` [points], by the metric `curve`, and `numbers` of a finished run."""
    from launch.records.metrics_db import read_names, read_series

    path = run_dir / "metrics.db"
    series = read_series(path, curve)
    if not series:
        raise measure.BenchmarkError(f"{run_dir}: nothing recorded of {curve} within {num_steps} env steps")
    points = np.linspace(0, num_steps, NUM_POINTS + 1)[1:]
    numbers = {
        name: float(_in_force(read_series(path, name), points[NUM_POINTS // 2 :]).mean())
        for name in read_names(path)
        if name.startswith(_NUMBERS)
    }
    return {"returns": _in_force(series, points).tolist(), "numbers": numbers}


def _in_force(series: Sequence[tuple[float, float]], points: np.ndarray) -> np.ndarray:
    """Return the current value at each point; a value that did not change is not recorded again."""
    steps, values = np.array(series).T
    return values[np.maximum(np.searchsorted(steps, points, "right") - 1, 0)]


def compare(
    preset: str,
    shared: Mapping[str, Any],
    arms: Sequence[Arm],
    grid: Mapping[str, Sequence[Any]],
    num_seeds: int,
    num_tuning_seeds: int,
    run: Callable[[Job], dict[str, Any]] = run_job,
    curve: str = TRAINING,
) -> list[Outcome]:
    """Tune every arm over the same grid, then run each with fresh seeds.

    Args:
        preset: base of the config.
        shared: changes that all arms share.
        arms: the arms to compare.
        grid: values by key; an arm's best setting has the largest median area under the curve.
        num_seeds: runs per arm, seeds 1 to `num_seeds`.
        num_tuning_seeds: runs per arm and setting; 0 takes the first of each key's values, untuned.
        run: makes one run.
        curve: the metric of returns.

    Returns:
        one outcome per arm, in order.
    """
    begun = time.perf_counter()
    base = Job(preset, shared, 0, curve)
    with worker_pool() as pool:
        chosen = [
            _tune(pool, run, base, arm, arm.grid if arm.grid is not None else grid, num_tuning_seeds) for arm in arms
        ]
        settings = [future() for future in chosen]
        runs = [
            [pool.submit(run, base.changed({**arm.values, **best}, seed)) for seed in range(1, num_seeds + 1)]
            for arm, best in zip(arms, settings, strict=True)
        ]
        outcomes = []
        for arm, best, futures in zip(arms, settings, runs, strict=True):
            results = [future.result() for future in futures]
            names = sorted(set.intersection(*(set(result["numbers"]) for result in results)))
            numbers = {name: [result["numbers"][name] for result in results] for name in names}
            curves = np.array([result["returns"] for result in results])
            tops = np.array([result["best"] for result in results]) if "best" in results[0] else None
            outcome = Outcome(arm.label, best, curves, numbers, tops)
            print(f"[{time.perf_counter() - begun:.0f} s] {describe(outcome)}", flush=True)
            outcomes.append(outcome)
    return outcomes


def worker_pool() -> ProcessPoolExecutor:
    """Return a pool with a process per core; the processes end when this one does, however it ends."""
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), _end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _tune(
    pool: ProcessPoolExecutor,
    run: Callable[[Job], dict[str, Any]],
    base: Job,
    arm: Arm,
    grid: Mapping[str, Sequence[Any]],
    num_seeds: int,
) -> Callable[[], dict[str, Any]]:
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if num_seeds == 0 or len(settings) == 1:
        return lambda: settings[0]
    seeds = range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + num_seeds)
    futures = [
        [pool.submit(run, base.changed({**arm.values, **setting}, seed)) for seed in seeds] for setting in settings
    ]

    def best() -> dict[str, Any]:
        areas = [np.median([np.mean(future.result()["returns"]) for future in row]) for row in futures]
        return settings[int(np.argmax(areas))]

    return best


def describe(outcome: Outcome) -> str:
    """Return one line: median and quartiles of the final return and of the area, and the later half's acceptance."""
    words = [f"{outcome.label}: final {spread(outcome.final)}", f"area {spread(outcome.area)}"]
    words += [f"{name} {np.median(values):.2f}" for name, values in outcome.numbers.items() if "accept" in name]
    tuned = ", ".join(f"{key} {value:g}" for key, value in outcome.settings.items())
    return "; ".join(words) + (f" [{tuned}]" if tuned else "")


def spread(values: np.ndarray) -> str:
    """Say `median (lower quartile to upper quartile)`."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def draw(
    name: str,
    title: str,
    tasks: Mapping[str, tuple[int, Sequence[Outcome]]],
    optimum: float | None = None,
    curve: str = TRAINING,
) -> Path:
    """Draw the median and the quartiles of all arms, one panel per task; return the picture's path.

    Args:
        name: of the file.
        title: of the picture.
        tasks: env steps per run and outcomes, by task.
        optimum: the highest possible return, drawn as a dotted line.
        curve: the metric of returns.
    """
    from launch.report import pictures

    panels = []
    for task, (num_steps, outcomes) in tasks.items():
        x = np.linspace(0, num_steps, NUM_POINTS + 1)[1:] / 1e3
        lines = []
        for outcome in outcomes:
            low, middle, high = np.percentile(outcome.returns, (25, 50, 75), axis=0)
            points, band = np.stack([x, middle], 1).tolist(), np.stack([low, high], 1).tolist()
            lines.append(pictures.Line(outcome.label, points, band=band))
        panels.append(pictures.Panel("thousand env steps (per member)", _CURVES[curve], lines, optimum, task))
    path = PICTURES / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    num_columns = len(panels) if len(panels) <= 3 else 2
    path.write_bytes(pictures.draw(panels, title, num_columns, shares_y=False))
    return path


def save(
    name: str,
    settings: Mapping[str, Any],
    tasks: Mapping[str, tuple[int, Sequence[Outcome]]],
    conclusions: Sequence[str],
) -> Path:
    """Write numbers and conclusions to `benchmarks/results/claims/NAME.json`, from which `docs/claims.md` is made."""
    results = {
        task: {
            "env_steps": num_steps,
            "arms": {
                outcome.label: {
                    "settings": outcome.settings,
                    "final": outcome.final.tolist(),
                    "area": outcome.area.tolist(),
                    "numbers": outcome.numbers,
                    "returns": np.round(outcome.returns, 4).tolist(),
                    **({} if outcome.best is None else {"best": np.round(outcome.best, 4).tolist()}),
                }
                for outcome in outcomes
            },
        }
        for task, (num_steps, outcomes) in tasks.items()
    }
    return measure.save(f"claims/{name}", settings, results, conclusions)


def run_claim(
    name: str,
    title: str,
    options: argparse.Namespace,
    tasks: Mapping[str, int],
    arms: Sequence[Arm],
    grid: Mapping[str, Sequence[Any]],
    *,
    shared: Mapping[str, Any] | None = None,
    run: Callable[[Job], dict[str, Any]] = run_job,
    curve: str = TRAINING,
    conclude: Callable[[str, int, Sequence[Outcome]], list[str]] | None = None,
    conclude_all: Callable[[Mapping[str, Sequence[Outcome]]], list[str]] | None = None,
) -> None:
    """Run one claim over its tasks: tune, compare, draw, save. The reader of the page judges the result.

    Args:
        name: of the files.
        title: of the picture.
        options: see `parser`.
        tasks: env steps per run (and member) by environment id.
        arms: the arms to compare.
        grid: values by key, over which each arm is tuned.
        shared: changes to the preset that all arms share.
        run: makes one run.
        curve: the metric of returns.
        conclude: returns further conclusions on a task, from its env steps and outcomes.
        conclude_all: returns further conclusions on all tasks, from their outcomes.
    """
    begun = time.perf_counter()
    name = options.save_as or name
    if options.env:
        tasks = dict.fromkeys(options.env, max(tasks.values()))
    if options.arm:
        labels = [arm.label for arm in arms]
        arms = [arm for arm in arms if any(part in arm.label for part in options.arm)]
        if not arms:
            raise SystemExit(f"--arm: no label holds {' or '.join(options.arm)}; there are {'; '.join(labels)}")
    if options.quick:
        tasks = dict.fromkeys(list(tasks)[:1], 3000)
        options.seeds, options.tuning_seeds = 2, 0
    command = shlex.join(["python", f"benchmarks/claims/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    outcomes: dict[str, tuple[int, Sequence[Outcome]]] = {}
    for env, num_steps in tasks.items():
        steps = round(num_steps * options.scale)
        print(f"{env}, {steps:,} env steps per run", flush=True)
        values = {**(shared or {}), "env": env, "steps": steps}
        row = compare(options.preset, values, arms, grid, options.seeds, options.tuning_seeds, run, curve)
        outcomes[env] = (steps, row)
        # After every task, so that a failure in the next one does not lose an hour of runs.
        if not options.quick:
            print(f"drawn: {draw(name, title, outcomes, curve=curve)}")
        conclusions = [f"{task}: {describe(outcome)}" for task, (_, row) in outcomes.items() for outcome in row]
        if conclude is not None:
            conclusions += [line for task, (steps, row) in outcomes.items() for line in conclude(task, steps, row)]
        if conclude_all is not None:
            conclusions += conclude_all({task: row for task, (_, row) in outcomes.items()})
        minutes = round((time.perf_counter() - begun) / 60.0, 1)
        save(name, {**vars(options), "minutes": minutes, "command": command}, outcomes, conclusions)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all claims share."""
    made = measure.parser(description)
    made.add_argument("--seeds", type=int, default=5, help="runs per arm")
    made.add_argument("--tuning-seeds", type=int, default=2, help="runs per arm and setting of the grid")
    made.add_argument("--scale", type=float, default=1.0, help="factor on the env steps of every run")
    made.add_argument("--preset", default="mini", help="where every arm's config begins")
    made.add_argument("--env", action="append", help="a task instead of the small ones; may be repeated")
    made.add_argument(
        "--arm",
        action="append",
        help="only arms whose label holds this; may be repeated; name what they are compared with too",
    )
    made.add_argument("--save-as", metavar="NAME", help="another name for results and picture, to keep those of before")
    return made


def load(name: str) -> dict[str, Any]:
    """Return the results that `save` wrote."""
    path = measure.RESULTS / "claims" / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))
