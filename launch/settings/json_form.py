"""Configs as JSON and back, for the record in a run directory, for any algorithm and any fields.

A config class that is no part of LASER is recorded by its place, under "class": "my_agent:MyConfig".
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laser.algorithms import find_algorithms
from laser.algorithms.base import AlgorithmConfig
from laser.config import Problem, field_infos, key_of, raise_problems
from laser.free_values import FreeValues
from laser.user_classes import class_path, find_class
from launch.settings.train_config import TrainConfig
from launch.settings.values import convert


def config_to_json(config: Any) -> dict[str, Any]:
    """Return a tree of configs as a JSON value, with the `name` of an algorithm and the place of a user's own class.

    Raises:
        ValueError: a user's own class is defined inside a function.
    """
    value: dict[str, Any] = {"name": config.name} if isinstance(config, AlgorithmConfig) else {}
    for name, info in field_infos(type(config)).items():
        item = getattr(config, name)
        if not dataclasses.is_dataclass(item):
            value[name] = plain(item)
            continue
        if type(item) is info.type and not dataclasses.fields(item):
            continue  # a section without settings
        value[name] = config_to_json(item)
        if type(item) is not info.type and not _is_found_by_name(item):
            value[name] = {"class": class_path(type(item)), **value[name]}
    return value


def config_from_json(
    value: Mapping[str, Any], algorithms: Mapping[str, type[AlgorithmConfig]] | None = None
) -> TrainConfig:
    """Rebuild a `TrainConfig`; settings that are newer than the record take their defaults, or what was fixed then.

    A user's own class is imported from the module that the record names, which runs that module's code. Records of run
    directories are read by `config_from_record`, which asks first whether their names are trusted.

    Args:
        value: a result of `config_to_json`.
        algorithms: config classes by name; by default the installed ones.

    Raises:
        ConfigError: unknown keys, an unknown algorithm, a class that is not found or unreadable values; the error lists
            all of them.
    """
    if algorithms is None:
        algorithms = find_algorithms()
    problems: list[Problem] = []
    value, _ = TrainConfig.with_new_names(_with_old_defaults(value))
    config: TrainConfig = _rebuild(TrainConfig, value, "", algorithms, problems)
    raise_problems(problems)
    return config


def _with_old_defaults(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record that holds what earlier versions did where a newer setting's default is something else."""
    environment = value.get("environment")
    if not isinstance(environment, Mapping) or not environment:
        return value
    return {**value, "environment": {"picture_size": 20, "pictures": "bytes", "action_masks": "off", **environment}}


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
    place = values.pop("class", None)
    name = str(values.pop("name", "")) if issubclass(config_type, AlgorithmConfig) else ""
    if place is not None:
        try:
            config_type = find_class(str(place), config_type)
        except ValueError as error:
            problems.append(Problem(prefix + "class", str(error)))
            return None
    elif config_type is AlgorithmConfig:
        if not isinstance(name, str) or name not in algorithms:
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


def _is_found_by_name(config: Any) -> bool:
    return isinstance(config, AlgorithmConfig) and find_algorithms().get(config.name) is type(config)


def plain(value: Any) -> Any:
    """Return the value of a config's field as a JSON value."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, FreeValues):
        return dict(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity; `convert` reads this text
    return value
