"""Presets: one file each, with a function of the file's name that returns a full `TrainConfig`.

Every file in this folder is a preset, without registration elsewhere.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laser.config import ConfigError, Problem, find_problems, key_of, raise_mistyped, raise_problems
from laser.discovery import read_first_lines
from launch.presets._fitting import find_fitting
from launch.presets._recommended import Recommendation, recommend, recommend_for
from launch.presets._tasks import TASKS

if TYPE_CHECKING:
    from launch.settings.train_config import TrainConfig

__all__ = [
    "TASKS",
    "Recommendation",
    "change",
    "find_fitting",
    "find_presets",
    "fit_environment",
    "load_preset",
    "recommend",
    "recommend_for",
]


def find_presets() -> dict[str, str]:
    """Return one line of help by preset name; the files are read, not imported, so that help is fast."""
    return read_first_lines(__name__)


def load_preset(name: str, values: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return a preset's config.

    Args:
        name: the preset's name.
        values: changes to single values by the command line's keys, e.g. `{"steps": 50_000,
            "algorithm.learning-rate": 1e-3}`.

    Raises:
        ConfigError: there is no such preset, or the values have mistakes; the error lists all of them.
    """
    raise_mistyped({"preset": (name, str), "values": (values, Mapping[str, Any] | None)})
    presets = find_presets()
    known = name.replace("-", "_")
    if known not in presets:
        from launch.settings.values import nearest

        if (Path(name) / "config.json").is_file():
            wrong = f"{name} is a run's directory, and no preset"
            raise ConfigError([Problem("preset", wrong, f"to continue it: --resume --run-dir {name}")])
        best = nearest(known, list(presets))
        remedy = f"did you mean {best}?" if best else f"presets are {', '.join(presets)}"
        raise ConfigError([Problem("preset", f"there is no preset {name!r}", remedy)])
    config: TrainConfig = getattr(importlib.import_module(f"launch.presets.{known}"), known)()
    config = dataclasses.replace(config, preset=known)
    return change(config, values) if values else config


def change(config: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """Return a config with single values changed by the command line's keys, and checked.

    Raises:
        ConfigError: keys are unknown, types are wrong, or values are out of range or do not go together; the error
            lists all of these mistakes.
    """
    from launch.settings.train_config import NOT_FLAGS, TrainConfig
    from launch.settings.values import apply_overrides

    raise_mistyped({"config": (config, TrainConfig), "values": (values, Mapping[str, Any])})
    changed, problems = apply_overrides(config, values, NOT_FLAGS)
    raise_problems([*problems, *find_problems(changed)])
    return fit_environment(changed, values)


def fit_environment(config: TrainConfig, given: Collection[str]) -> TrainConfig:
    """Return a config without those of its preset's settings that its environment does not have.

    A preset for Atari, for example, may have sticky actions, which other environments with pictures do not know.

    Args:
        config: a preset with changes.
        given: keys of the changes; these settings stay, so that the user hears that they have no effect.
    """
    if "env" not in given:
        return config
    from laser.environments import settings_without_effect

    try:
        idle = settings_without_effect(config.env, config.environment)
    except ConfigError:
        return config  # an unknown environment is said with all other mistakes
    plain = type(config.environment)()
    dropped = {name: getattr(plain, name) for name in idle if f"environment.{key_of(name)}" not in map(key_of, given)}
    return dataclasses.replace(config, environment=dataclasses.replace(config.environment, **dropped))
