"""Readers of a sweep's record: the sweep, and the base config of its members."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laser.config import ConfigError, Problem, key_of, raise_problems
from launch.records.run_record import config_from_record
from launch.settings.train_config import TrainConfig
from launch.settings.values import apply_overrides
from launch.sweeps.halving import PrunerConfig
from launch.sweeps.population import PbtConfig
from launch.sweeps.search_space import parse_space
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.value_lists import parse_lists

KEPT = ("seeds", "sample", "even_draws", "share_replay", "pbt", "tuner", "pruner", "score")
"""Options that a resumed sweep keeps."""


def sweep_from_json(record: dict[str, Any], base: TrainConfig) -> SweepConfig:
    """Rebuild a sweep from its record, of `read_record`; values that a newer version added take their defaults.

    Raises:
        ConfigError: values of the record cannot be read.
    """
    value = record["sweep"]
    grid, wrong = parse_lists(base, _texts(value["grid"]), ())
    zipped, unpaired = parse_lists(base, _texts(value.get("zip", {})), (), "zip")
    space, strange = parse_space(base, [f"{key}={text}" for key, text in value.get("space", {}).items()], ())
    # Sweeps of before had independent draws, which must come out again.
    options, problems = apply_overrides(SweepOptions(even_draws=False), value["options"])
    pbt, found = apply_overrides(PbtConfig(), value["pbt"])
    pruner, rejected = apply_overrides(PrunerConfig(), value.get("pruner", {}))
    raise_problems([*problems, *found, *rejected, *wrong, *unpaired, *strange])
    return SweepConfig(base, grid, options, pbt, zipped, space, pruner)


def find_changes(resumed: SweepConfig, asked: SweepConfig) -> list[Problem]:
    """Return a problem for each change that a resumed sweep does not allow."""
    kept, remedy = "a resumed sweep keeps its own", "leave it out, or start a new sweep"
    now = asked.texts()
    problems = [Problem(flag, kept, remedy) for flag, then in resumed.texts().items() if now[flag] != then]
    problems += [
        Problem(key_of(key), kept, remedy)
        for key in KEPT
        if getattr(asked.options, key) != getattr(resumed.options, key)
    ]
    if asked.base.seed != resumed.base.seed:
        problems.append(Problem("seed", kept, remedy))
    problems += [
        Problem(section, f"{kept} settings", "leave them out, or start a new sweep")
        for section in ("pbt", "pruner")
        if getattr(asked, section) != getattr(resumed, section)
    ]
    return problems


def _texts(lists: Mapping[str, list[str]]) -> list[str]:
    return [f"{key}={','.join(f'({item})' for item in items)}" for key, items in lists.items()]


def read_base(record: dict[str, Any], path: Path) -> TrainConfig:
    """Return the base config of a sweep's record, for use in `path`.

    Raises:
        ConfigError: the record is none of a sweep.
        NothingToResumeError: the record's values cannot be read.
        UntrustedError: the record names code that this user has not named before.
    """
    if "sweep" not in record:
        raise ConfigError([Problem("run-dir", f"{path} holds a run, not a sweep", "use laser train --resume")])
    return config_from_record(record, path)
