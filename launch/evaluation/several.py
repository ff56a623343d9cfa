"""`laser eval A B C`: several runs, or several sweeps, under the same conditions, and what they show together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from laser.config import ConfigError, Problem, raise_problems
from laser.scoring.protocols import OverTasks
from laser.scoring.statistics import LEAST_SEEDS, mean_interval
from launch.errors import LaunchError, OutputError
from launch.evaluation.evaluate import evaluate
from launch.evaluation.evaluation_result import (
    EvaluationResult,
    Interval,
    Summary,
    in_brackets,
    summarise_runs,
    summary_to_json,
)
from launch.evaluation.sweep_evaluation import SweepEvaluation
from launch.evaluation.sweeps_together import SweepOfGames, SweepsTogether, put_together
from launch.records.run_record import read_record
from launch.standard_output import say


@dataclass(frozen=True)
class Failed:
    """A run or sweep that could not play, and why."""

    run_dir: Path
    error: str

    def to_json(self) -> dict[str, Any]:
        """Return the run's entry in the object that `--json` prints."""
        return {"run_dir": str(self.run_dir), "error": self.error}


@dataclass(frozen=True)
class RunsEvaluation:
    """Results of several runs, which all played the same number of episodes of each task.

    Args:
        played: at least one.
        failed: those that could not play.
    """

    played: list[EvaluationResult]
    failed: list[Failed]

    @cached_property
    def means(self) -> dict[str, list[float]]:
        """The mean return of each run, by task."""
        means: dict[str, list[float]] = {}
        for result in self.played:
            for task in result.tasks:
                means.setdefault(task.id, []).append(task.mean_return)
        return means

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Student's 95 % intervals of the mean over runs, of the tasks that at least three runs played."""
        several = {task: values for task, values in self.means.items() if len(values) >= LEAST_SEEDS}
        means = {task: mean_interval(values) for task, values in several.items()}
        return {task: (mean - half, mean + half) for task, (mean, half) in means.items()}

    @cached_property
    def summary(self) -> Summary | None:
        """Normalised scores over tasks, with intervals over runs.

        None for a single task, different numbers of runs, or a task without reference scores.
        """
        references = {task.id: task.reference for result in self.played for task in result.tasks}
        if len(self.means) < 2 or len({len(values) for values in self.means.values()}) > 1:
            return None
        columns = [
            [reference.normalise(value) for value in self.means[task]]
            for task, reference in references.items()
            if reference is not None
        ]
        return summarise_runs(np.array(columns).T) if len(columns) == len(self.means) else None

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        tasks = {
            task: {
                "mean_returns": values,
                "mean_return": float(np.mean(values)),
                "interval": list(self.intervals[task]) if task in self.intervals else None,
            }
            for task, values in self.means.items()
        }
        summary = summary_to_json(self.summary or {})
        runs = [each.to_json() for each in self.played] + [each.to_json() for each in self.failed]
        return {"runs": runs, "tasks": tasks, "summary": summary or None}

    def words(self) -> str:
        """Return what the runs show together; each has printed its own numbers."""
        lines = []
        for task, values in self.means.items():
            around = ""
            if task in self.intervals:
                low, high = self.intervals[task]
                around = f" ({low:,.2f} to {high:,.2f}, 95 % interval over runs)"
            runs = f"{len(values)} run{'s' if len(values) > 1 else ''}"
            lines.append(f"{task}, {runs}: mean return {np.mean(values):,.2f}{around}")
        for name, (value, between) in (self.summary or {}).items():
            lines.append(f"normalised {name.replace('_', ' ')} over tasks: {value:.3f}{in_brackets(between)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SweepsEvaluation:
    """Results of several sweeps, whose members all played the same number of episodes of each task.

    Args:
        played: at least one.
        failed: those of which no member could play.
        together: what the played ones show together.
    """

    played: list[SweepEvaluation]
    failed: list[Failed]
    together: SweepsTogether

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        sweeps = [each.to_json() for each in self.played] + [each.to_json() for each in self.failed]
        return {"sweeps": sweeps, "together": self.together.to_json()}

    def words(self) -> str:
        """Return what the sweeps show together; each has printed its own numbers."""
        return "\n".join(self.together.lines())


def evaluate_runs(
    run_dirs: Sequence[Path], quiet: bool = False, curve: OverTasks = "median", **conditions: Any
) -> RunsEvaluation | SweepsEvaluation:
    """Play episodes with the agents of several runs, or of several sweeps, one after the other.

    Args:
        run_dirs: directories of runs, or of sweeps; none twice.
        quiet: print nothing.
        curve: of sweeps over several tasks: what the best curves are of.
        conditions: as for `evaluate`.

    Raises:
        ConfigError: a directory is named twice; some are runs and some are sweeps; two sweeps have only some of their
            games in common.
        NothingToResumeError: a directory holds no run.
        LaunchError: as `evaluate` raises, if no run could play.
    """
    raise_problems(list(_find_problems(run_dirs)))
    if conditions.get("log"):
        wrong = "one agent plays the episodes of a data set, and several runs are named"
        raise ConfigError([Problem("log", wrong, "evaluate one run")])
    played: list[EvaluationResult | SweepEvaluation] = []
    failed: list[Failed] = []
    errors: list[LaunchError | ConfigError] = []
    for path in run_dirs:
        if not quiet:
            say(f"{path}:")
        try:
            played.append(evaluate(path, quiet=quiet, curve=curve, **conditions))
        except OutputError:
            raise  # a full disk concerns all runs
        except (LaunchError, ConfigError) as error:
            errors.append(error)
            failed.append(Failed(path, " ".join(str(error).split())))
            if not quiet:
                say(f"warning: {failed[-1].error}")
    if not played:
        raise errors[0]
    sweeps = [each for each in played if isinstance(each, SweepEvaluation)]
    together: RunsEvaluation | SweepsEvaluation
    if sweeps:
        together = SweepsEvaluation(sweeps, failed, put_together([_of_games(each) for each in sweeps], curve))
    else:
        together = RunsEvaluation([each for each in played if isinstance(each, EvaluationResult)], failed)
    if not quiet:
        print(together.words())
    return together


def _of_games(sweep: SweepEvaluation) -> SweepOfGames:
    returns = {
        place: {task.id: task.mean_return for task in result.tasks}
        for place, record in enumerate(sweep.records)
        if (result := sweep.result_of(record)) is not None
    }
    return SweepOfGames(sweep.run_dir, sweep.records, returns)


def _find_problems(run_dirs: Sequence[Path]) -> list[Problem]:
    """Return what is wrong with the directories; those that hold no run raise at once."""
    problems = []
    first_is_sweep = "sweep" in read_record(run_dirs[0])
    kinds = {True: "a sweep", False: "a run"}
    for place, path in enumerate(run_dirs):
        is_sweep = "sweep" in read_record(path)
        if path.resolve() in [earlier.resolve() for earlier in run_dirs[:place]]:
            problems.append(Problem("run-dir", f"{path} is named twice", "leave one out"))
        elif is_sweep != first_is_sweep:
            wrong = f"{path} is {kinds[is_sweep]}, and {run_dirs[0]} is {kinds[first_is_sweep]}"
            problems.append(Problem("run-dir", wrong, "name runs, or sweeps; members/N of a sweep is a run"))
    return problems
