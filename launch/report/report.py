"""The command `laser report`: reads a run or a sweep and writes its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laser.config import Problem, raise_problems
from laser.packages import find_missing
from launch.errors import CannotCreateError
from launch.evaluation.evaluate import evaluate
from launch.evaluation.evaluation_result import EvaluationResult
from launch.records.trust import trust_run
from launch.report.comparison_report import write_comparison
from launch.report.options import ReportOptions
from launch.report.page import Page
from launch.report.recorded import Recorded
from launch.report.run_report import default_directory, write_run
from launch.report.sweep_report import write_sweep


@dataclass(frozen=True)
class Report:
    """Files of a written report."""

    run_dir: Path
    page: Path
    pictures: list[Path]

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "run_dir": str(self.run_dir),
            "page": str(self.page),
            "pictures": [str(picture) for picture in self.pictures],
        }


def report_comparison(paths: Sequence[Path], options: ReportOptions) -> Report:
    """Write the report that compares runs, by default into `report` beside the first of them.

    Raises:
        ConfigError: matplotlib is missing, or evaluation episodes are asked for.
        NothingToResumeError: a directory is no run, or a sweep.
        OutputError: the `metrics.db` of a run is missing or damaged.
        CannotCreateError: the report cannot be written.
    """
    problems = list(find_missing("report", ["matplotlib"]))
    if options.episodes:
        problems.append(Problem("episodes", "are played for a report of one run", "leave it out, or name one run"))
    raise_problems(problems)
    page, pictures = write_comparison(paths)
    return _written(paths[0], options.out or paths[0].resolve().parent / "report", page, pictures)


def report(path: Path, options: ReportOptions) -> Report:
    """Write `index.html` and its pictures as PNG files.

    Raises:
        ConfigError: matplotlib is missing.
        NothingToResumeError: there is no run or sweep, or no checkpoint for the evaluation.
        UntrustedError: the run names code that this user has not named before, and `options.trust` is not set.
        OutputError: the `metrics.db` of a run is missing or damaged.
        CannotCreateError: the report cannot be written.
    """
    raise_problems(list(find_missing("report", ["matplotlib"])))
    if options.trust:
        trust_run(path)
    recorded = Recorded(path)
    if "sweep" in recorded.record:
        page, pictures = write_sweep(path, recorded.record)
    else:
        evaluation = evaluate(path, options.episodes, quiet=True) if options.episodes else None
        assert evaluation is None or isinstance(evaluation, EvaluationResult)
        page, pictures = write_run(recorded, evaluation)
    return _written(path, options.out or default_directory(path), page, pictures)


def _written(path: Path, directory: Path, page: Page, pictures: Mapping[str, bytes]) -> Report:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "index.html").write_text(page.render(), encoding="utf-8")
        for name, picture in pictures.items():
            (directory / name).write_bytes(picture)
    except OSError as error:
        raise CannotCreateError("out", f"{directory}: {error.strerror or error}", "choose another --out") from error
    return Report(path, directory / "index.html", [directory / name for name in pictures])
