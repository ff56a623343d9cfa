"""The result of a run, as Python returns it and `--json` prints it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launch.recording.metric_table import EVALUATION
from launch.recording.replay_gauges import summarise_ledger
from launch.records.metrics_db import read_series
from launch.records.run_directory import RunDirectory
from launch.supervision.member_supervisor import Outcome


@dataclass(frozen=True)
class TrainResult:
    """The result of a run.

    Args:
        env_steps: agent decisions.
        frames: env steps times action repeat.
        seconds: seconds of training, without imports, construction and the wait for the first data.
        learner_steps: updates.
        mean_return: mean undiscounted return of the last 20 training episodes.
        episodes: training episodes finished.
        run_dir: the directory of the run's files.
        finished: "steps", "solved", "pruned", "stopped" or "failed".
        normalised_score: median over the tasks, of their last 20 training episodes; None without reference scores.
        task_returns: mean return of the last 20 training episodes of each task that has any.
        ledger: numbers of unrolls by name, as `stages`, `reasons` and `imbalance` (see `summarise_ledger`).
        evaluations: `env_steps` and `mean_return` of each evaluation of the run, those before a resumption included.
        start: what the first updates since the start or resumption learned from, by source: `updates`, `share`, `age`
            in updates, `accepted`, and `warnings`; {} for a run that ended before.
    """

    env_steps: int
    frames: int
    seconds: float
    learner_steps: int
    mean_return: float
    episodes: int
    run_dir: Path
    finished: str
    normalised_score: float | None = None
    task_returns: dict[str, float] = field(default_factory=dict)
    ledger: dict[str, dict[str, int]] = field(default_factory=dict)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    start: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        values = dataclasses.asdict(self) | {"run_dir": str(self.run_dir)}
        values["mean_return"] = None if math.isnan(self.mean_return) else self.mean_return
        values["env_steps_per_second"] = self.env_steps / self.seconds if self.seconds > 0 else 0.0
        return values


def result_of(outcome: Outcome, run_dir: Path) -> TrainResult:
    """Return the result of a member that has ended."""
    snapshot = outcome.snapshot
    return TrainResult(
        env_steps=snapshot.env_steps,
        frames=snapshot.frames,
        seconds=snapshot.seconds,
        learner_steps=snapshot.learner_steps,
        mean_return=snapshot.mean_return,
        episodes=snapshot.episodes,
        run_dir=run_dir,
        finished=outcome.finished,
        normalised_score=snapshot.normalised_score,
        task_returns=snapshot.task_returns,
        ledger=summarise_ledger(snapshot),
        evaluations=_read_evaluations(run_dir),
        start=outcome.start,
    )


def _read_evaluations(run_dir: Path) -> list[dict[str, float]]:
    path = RunDirectory(run_dir, False).metrics_path
    points = read_series(path, EVALUATION) if path.exists() else []
    return [{"env_steps": int(at), "mean_return": value} for at, value in points]
