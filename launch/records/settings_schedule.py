"""Settings schedules: changes of the algorithm's settings at given env steps, as a JSON file.

    [{"env_steps": 0, "settings": {"algorithm.learning-rate": 0.001}}, {"env_steps": 20000, "settings": {...}}]

Population based training writes one for every member, so that the changes it found can be used again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laser.config import ConfigError, Problem, find_problems, key_of
from launch.formats import short
from launch.records.atomic_files import replace_file
from launch.settings.train_config import TrainConfig

SCHEDULE_NAME = "schedule.json"
"""File in a member's directory with its settings schedule, traced back through its ancestors."""
_KEY = "settings-schedule"
_SECTION = "algorithm."


@dataclass(frozen=True)
class SettingsChange:
    """Settings by the command line's keys, and the env step at which they begin to hold."""

    env_steps: int
    settings: dict[str, float]


class SettingsSchedule:
    """The changes of a run, each of which becomes due once, in order.

    Args:
        changes: changes, ascending in env steps.
    """

    def __init__(self, changes: Sequence[SettingsChange]):
        self.changes = list(changes)
        self._next = 0

    @classmethod
    def read(cls, path: Path | None) -> SettingsSchedule:
        """Return the settings schedule in a file, or an empty one for None.

        Raises:
            ConfigError: the file cannot be read or is not a settings schedule.
        """
        return cls([] if path is None else read_changes(path))

    def due(self, env_steps: int) -> dict[str, float]:
        """Return the settings that became due since the last call, by field name of the algorithm's config."""
        settings: dict[str, float] = {}
        while self._next < len(self.changes) and self.changes[self._next].env_steps <= env_steps:
            settings |= field_names(self.changes[self._next].settings)
            self._next += 1
        return settings


def field_names(settings: Mapping[str, float]) -> dict[str, float]:
    """Return settings by field name of the algorithm's config: `algorithm.learning-rate` -> `learning_rate`."""
    return {key.removeprefix(_SECTION).replace("-", "_"): value for key, value in settings.items()}


def setting_keys(fields: Mapping[str, float]) -> dict[str, float]:
    """Return settings by the command line's keys: `learning_rate` -> `algorithm.learning-rate`."""
    return {_SECTION + key_of(name): value for name, value in fields.items()}


def last_settings(path: Path) -> dict[str, str]:
    """Return the settings that a schedule changed, as texts, as they were at its end; {} without the file.

    Raises:
        ConfigError: see `read_changes`.
    """
    if not path.is_file():
        return {}
    return {key: short(value) for change in read_changes(path) for key, value in change.settings.items()}


def read_changes(path: Path) -> list[SettingsChange]:
    """Return the changes in the file of a settings schedule.

    Raises:
        ConfigError: the file cannot be read or is not a settings schedule; every bad entry is named.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([Problem(_KEY, f"{path} cannot be read: {error.strerror}", "check the path")]) from error
    except ValueError as error:
        raise ConfigError([Problem(_KEY, f"{path} is not JSON: {error}", "a sweep with --pbt writes one")]) from (error)
    problems: list[Problem] = []
    changes: list[SettingsChange] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        change = _change(entry)
        if change is None:
            problems.append(Problem(_KEY, f"entry {index} of {path} is not {{env_steps, settings}}"))
        elif changes and change.env_steps < changes[-1].env_steps:
            problems.append(Problem(_KEY, f"entry {index} of {path} is before the entry above it", "sort the entries"))
        else:
            changes.append(change)
    if problems:
        raise ConfigError(problems)
    return changes


def find_schedule_problems(config: TrainConfig) -> list[Problem]:
    """Return the problems of a config's settings schedule: of its file, its settings, and their values."""
    if config.settings_schedule is None:
        return []
    try:
        changes = read_changes(config.settings_schedule)
    except ConfigError as error:
        return error.problems
    problems = []
    for key, value in dict.fromkeys(item for change in changes for item in change.settings.items()):
        (name,) = field_names({key: value})
        if not key.startswith(_SECTION) or name not in config.algorithm.live_settings:
            allowed = ", ".join(setting_keys(dict.fromkeys(config.algorithm.live_settings, 0.0)))
            problems.append(Problem(_KEY, f"{key} cannot change while training", f"use one of {allowed}"))
            continue
        values: dict[str, Any] = {name: value}
        changed = dataclasses.replace(config.algorithm, **values)
        problems += [Problem(_KEY, f"{key} {problem.wrong}") for problem in find_problems(changed)]
    return problems


def write_changes(path: Path, changes: Sequence[SettingsChange]) -> None:
    """Write the file of a settings schedule.

    Raises:
        OutputError: the file cannot be written.
    """
    entries = [{"env_steps": change.env_steps, "settings": change.settings} for change in changes]
    replace_file(path, f"{json.dumps(entries, indent=1)}\n".encode())


def _change(entry: Any) -> SettingsChange | None:
    if not isinstance(entry, dict) or set(entry) != {"env_steps", "settings"}:
        return None
    steps, settings = entry["env_steps"], entry["settings"]
    if not isinstance(steps, int) or not isinstance(settings, dict):
        return None
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in settings.values()]
    return SettingsChange(steps, {str(key): float(value) for key, value in settings.items()}) if all(numbers) else None
