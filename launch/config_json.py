"""Configs as JSON and back: what a run directory keeps, whatever algorithm and fields a config has."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laser.algorithms.base import AlgorithmConfig
from laser.config import Problem, field_infos, key_of, raise_problems
from launch.config import TrainConfig
from launch.overrides import convert


def config_to_json(config: Any) -> dict[str, Any]:
    """Return a tree of configs as a JSON value; an algorithm's carries its `name`."""
    value: dict[str, Any] = {"name": config.name} if isinstance(config, AlgorithmConfig) else {}
    for field in dataclasses.fields(config):
        item = getattr(config, field.name)
        value[field.name] = config_to_json(item) if dataclasses.is_dataclass(item) else _plain(item)
    return value


def config_from_json(
    value: Mapping[str, Any], algorithms: Mapping[str, type[AlgorithmConfig]] | None = None
) -> TrainConfig:
    """Rebuild a `TrainConfig`; values that a newer version added take their defaults.

    Args:
        value: from `config_to_json`.
        algorithms: config classes by name; by default those that are installed.

    Raises:
        ConfigError: unknown keys, an unknown algorithm or unreadable values, all at once.
    """
    if algorithms is None:
        from laser.algorithms import find_algorithms

        algorithms = find_algorithms()
    problems: list[Problem] = []
    config: TrainConfig = _rebuild(TrainConfig, value, "", algorithms, problems)
    raise_problems(problems)
    return config


def _rebuild(
    config_type: type,
    value: Any,
    prefix: str,
    algorithms: Mapping[str, type[AlgorithmConfig]],
    problems: list[Problem],
) -> Any:
    if not isinstance(value, Mapping):
        problems.append(Problem(prefix.rstrip(".") or "config", f"must be a table of values, got {value!r}"))
        return None
    values = dict(value)
    if config_type is AlgorithmConfig:
        name = values.pop("name", None)
        if name not in algorithms:
            problems.append(
                Problem(prefix + "name", f"must be one of {', '.join(sorted(algorithms))}, got {name!r}", "")
            )
            return None
        config_type = algorithms[name]
    infos, arguments = field_infos(config_type), {}
    for name, item in values.items():
        key = prefix + key_of(name)
        if name not in infos:
            problems.append(Problem(key, "unknown key", "it was written by another version of LASER"))
        elif dataclasses.is_dataclass(infos[name].type):
            arguments[name] = _rebuild(infos[name].type, item, key + ".", algorithms, problems)
        else:
            try:
                arguments[name] = convert(item, infos[name].type)
            except ValueError as error:
                problems.append(Problem(key, str(error)))
    needed = [
        field.name
        for field in dataclasses.fields(config_type)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in needed if name not in values]
    problems.extend(Problem(prefix + key_of(name), "is missing") for name in missing)
    return None if missing or problems else config_type(**arguments)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity; `convert` reads the word back
    return value
