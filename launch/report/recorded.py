"""A run's data for its report: its record, its curves, the returns of its newest episodes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from laser.environments import task_ids
from launch.evaluation.evaluation_result import TaskResult
from launch.formats import short
from launch.recording.metric_table import RETURN
from launch.records.inside import is_own_file
from launch.records.listing import VIDEO_TYPES
from launch.records.preset_changes import changes_from_preset
from launch.records.run_directory import RunDirectory
from launch.records.run_record import config_from_record, read_record
from launch.records.saved_state import check_saved_state
from launch.records.series import EMPTY, Latest, Series, read_latest, read_series
from launch.records.settings_schedule import SCHEDULE_NAME, read_changes
from launch.records.tick import Tick
from launch.report.repeating import sweep_command, train_command
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import find_leaves, show
from learner.checkpoint import NoCheckpointError, load_newest_checkpoint

_MOST_VIDEO_BYTES = 16_000_000
_MOST_POINTS = 2000
"""Most points of a curve: more than a picture is wide in pixels."""


@dataclass(frozen=True)
class Recorded:
    """A run directory, whose files are read when first needed.

    Args:
        path: of the run.
    """

    path: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of `config.json`.

        Raises:
            NothingToResumeError: the file is missing or cannot be read.
        """
        return read_record(self.path)

    @cached_property
    def config(self) -> TrainConfig:
        """The config."""
        return config_from_record(self.record, self.path)

    @property
    def changes(self) -> Mapping[str, Mapping[str, str]]:
        """The differences from the preset; for runs that did not record them, from the present preset."""
        changes: Mapping[str, Mapping[str, str]] = self.record.get("changes", changes_from_preset(self.config))
        return changes

    @property
    def repeat(self) -> str:
        """The command that repeats the training in a new directory."""
        if not self.config.preset:
            return str(self.record["command"])
        if "sweep" in self.record:
            return sweep_command(self.record, self.config, self.changes)
        command = train_command(self.config.preset, self.changes)
        if not self.ended_settings:
            return command
        return f"{command} --settings-schedule {shlex.quote(str(self.path / SCHEDULE_NAME))}"

    @property
    def commands(self) -> list[str]:
        """The commands that the user typed for it, the first and those that resumed it, each once."""
        history = self.record.get("history") or [self.record]
        return list(dict.fromkeys(str(entry["command"]) for entry in history))

    @cached_property
    def ended_settings(self) -> dict[str, tuple[str, str]]:
        """The settings that PBT changed, as they were at the beginning and at the end; {} if it changed none.

        Raises:
            NothingToResumeError: the schedule cannot be read.
        """
        if not (self.path / SCHEDULE_NAME).is_file():
            return {}
        changes = read_changes(self.path / SCHEDULE_NAME)
        first = {
            leaf.key: short(leaf.value) if type(leaf.value) in (int, float) else show(leaf.value)
            for leaf in find_leaves(self.config)
        }
        last = {key: short(value) for change in changes for key, value in change.settings.items()}
        return {key: (first.get(key, ""), value) for key, value in last.items() if first.get(key) != value}

    @cached_property
    def newest_video(self) -> tuple[Path, bytes, str] | None:
        """The newest video with its content and MIME type; None without one that is small enough for a page."""
        place = self.path / "videos"
        kept = [path for path in place.glob("*") if path.suffix.lower() in VIDEO_TYPES and is_own_file(path, self.path)]
        newest = max(kept, key=lambda path: path.stat().st_mtime, default=None)
        if newest is None or newest.stat().st_size > _MOST_VIDEO_BYTES:
            return None
        return newest, newest.read_bytes(), VIDEO_TYPES[newest.suffix.lower()]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """Every setting by key, as written on the command line."""
        return [(leaf.key, show(leaf.value)) for leaf in find_leaves(self.config) if leaf.key not in NOT_FLAGS]

    @cached_property
    def by_key(self) -> dict[str, str]:
        """The settings that `settings` lists, by key."""
        return dict(self.settings)

    @cached_property
    def latest(self) -> Latest:
        """The newest value of every metric.

        Raises:
            OutputError: `metrics.db` is missing or damaged.
        """
        return read_latest(self._metrics_path)

    def series(self, names: Iterable[str]) -> dict[str, Series]:
        """Return curves by name, thinned for a picture; names that were not recorded are left out.

        Raises:
            OutputError: `metrics.db` is missing or damaged.
        """
        return read_series(self._metrics_path, names, _MOST_POINTS)

    @property
    def end(self) -> Tick | None:
        """The last tick; None if nothing was recorded."""
        return self.latest.moment

    @cached_property
    def newest_returns(self) -> list[TaskResult]:
        """The newest 20 training episodes of each task with episodes, at the newest valid checkpoint."""
        try:
            checkpoint, _ = load_newest_checkpoint(
                RunDirectory(self.path, resumed=True).checkpoints_path, check_saved_state
            )
        except NoCheckpointError:
            return []
        newest = checkpoint.state["recorder"].get("task_returns", {}).get("newest", [])
        tasks = zip(task_ids(self.config.env), newest, strict=False)
        return [TaskResult(task, list(returns), []) for task, returns in tasks if returns]

    @property
    def returns(self) -> list[tuple[float, float]]:
        """The curve of the mean return as (env steps, value)."""
        series = self.series([RETURN]).get(RETURN, EMPTY)
        return list(zip(series.axes["env_steps"].tolist(), series.values.tolist(), strict=True))

    @property
    def mean_return(self) -> float:
        """Mean return of the last 20 training episodes; NaN before the first."""
        return self.latest.values.get(RETURN, math.nan)

    @property
    def _metrics_path(self) -> Path:
        return self.path / "metrics.db"
