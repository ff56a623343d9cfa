"""Learning curves: several seeds of a preset are trained and evaluated, and all returns drawn into one picture."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import measure

from launch.records.metrics_db import Axis, read_series
from launch.report import pictures
from launch.report.pictures import Line, Panel

AXES: tuple[Axis, ...] = ("env_steps", "seconds")


@dataclass(frozen=True)
class Curve:
    """One run to make: a label for the legend, its directory, and the arguments of `laser train`."""

    label: str
    run_dir: Path
    words: str


def parser(description: str | None, steps: int, name: str) -> argparse.ArgumentParser:
    """Return a parser with the options that scripts for learning curves share.

    Args:
        description: for `--help`.
        steps: default env steps of each run.
        name: of the folder of runs.
    """
    made = measure.parser(description)
    made.add_argument("--steps", type=int, default=steps, help="env steps (agent decisions) per run")
    made.add_argument("--episodes", type=int, default=20, help="evaluation episodes per run")
    made.add_argument("--runs", type=Path, default=measure.ROOT / "runs" / "benchmarks" / name)
    made.add_argument("--pictures", type=Path, default=measure.ROOT / "docs" / "pictures")
    made.add_argument("--redraw", action="store_true", help="evaluate and draw existing runs; train nothing")
    return made


def train_and_evaluate(curve: Curve, episodes: int, timeout_s: float, *, redraw: bool) -> dict:
    """Train, then play evaluation episodes with sampled actions; return both results in one.

    With `redraw` an existing run is not trained. It is evaluated only if it has not been since its training ended.
    `evaluation_mean_return` is the mean over the evaluation episodes, `minutes` the training time.
    """
    if not redraw:
        shutil.rmtree(curve.run_dir, ignore_errors=True)
        command = [*measure.LASER, "train", *curve.words.split(), "--run-dir", curve.run_dir, "--quiet", "--json"]
        trained = measure.run_json(command, timeout_s)
    else:
        trained = {axis: end_of(curve.run_dir, axis) for axis in AXES}
    evaluated = _evaluate(curve.run_dir, episodes)
    return {
        **trained,
        "label": curve.label,
        "minutes": trained["seconds"] / 60.0,
        "evaluation_mean_return": evaluated["mean_return"],
        "evaluation": evaluated,
    }


def _evaluate(run_dir: Path, episodes: int) -> dict:
    kept = run_dir / f"evaluation-of-{episodes}.json"
    if not kept.exists() or kept.stat().st_mtime < (run_dir / "metrics.db").stat().st_mtime:
        command = [*measure.LASER, "eval", run_dir, "--episodes", episodes, "--seed", 1_000, "--json"]
        kept.write_text(json.dumps(measure.run_json(command, timeout_s=3600.0)), encoding="utf-8")
    found: dict = json.loads(kept.read_text(encoding="utf-8"))
    return found


def end_of(run_dir: Path, axis: Axis) -> float:
    """Return the env steps of a run: a rate changes at every moment, so its last point is the run's end."""
    return read_series(run_dir / "metrics.db", "charts/SPS", axis)[-1][0]


def draw(path: Path, title: str, curves: Sequence[Curve], goal: float | None = None) -> Path:
    """Draw the mean return of the last 20 training episodes over env steps and over minutes; one colour per label."""
    panels = [
        Panel(words, "mean return of the last 20 episodes", [_line(curve, axis, unit) for curve in curves], goal)
        for axis, unit, words in zip(AXES, (1e6, 60.0), ("million env steps", "minutes of training"), strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pictures.draw(panels, title))
    print(f"drawn: {path}")
    return path


def _line(curve: Curve, axis: Axis, unit: float) -> Line:
    points = read_series(curve.run_dir / "metrics.db", "charts/mean_return", axis)
    # A value that did not change is not recorded again, so the last one holds until the end.
    points += [(end_of(curve.run_dir, axis), y) for _, y in points[-1:]]
    return Line(curve.label, [(x / unit, y) for x, y in points])
