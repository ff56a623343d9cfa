"""Commands that repeat a training in new directories."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from launch.settings.train_config import TrainConfig
from launch.settings.values import find_leaves, show
from launch.sweeps.sweep_options import sweep_leaves
from launch.sweeps.sweep_record import sweep_from_json
from launch.sweeps.value_lists import list_text


def train_command(preset: str, changes: Mapping[str, Mapping[str, str]]) -> str:
    """Return the command of a run.

    Args:
        preset: of the run.
        changes: from the preset (see `launch.records.preset_changes`).
    """
    return shlex.join(["laser", "train", preset, *_flags(changes)])


def sweep_command(record: Mapping[str, Any], base: TrainConfig, changes: Mapping[str, Mapping[str, str]]) -> str:
    """Return the command of a sweep.

    Args:
        record: of the sweep.
        base: base config of its members.
        changes: of the base from its preset.
    """
    sweep = sweep_from_json(dict(record), base)
    words = ["laser", "sweep", base.preset, *_flags(changes)]
    for flag, lists in (("--grid", sweep.grid), ("--zip", sweep.zipped)):
        for key, values in lists.items():
            words += [flag, f"{key}={list_text(values)}"]
    for key, dimension in sweep.space.items():
        words += ["--space", f"{key}={dimension}"]
    pbt = find_leaves(sweep.pbt, "pbt.") if sweep.options.pbt else ()
    pruner = find_leaves(sweep.pruner, "pruner.") if sweep.options.prunes else ()
    defaults = {leaf.key: leaf.value for leaf in sweep_leaves()}
    for leaf in [*find_leaves(sweep.options), *pbt, *pruner]:
        if leaf.value != defaults[leaf.key]:
            words += option(leaf.key, leaf.value)
    return shlex.join(words)


def option(key: str, value: Any) -> list[str]:
    """Return the words of the command line that set a key: a switch, or a flag and its value."""
    if isinstance(value, bool):
        return [f"--{key}" if value else f"--no-{key}"]
    return [f"--{key}", show(value)]


def _flags(changes: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [word for key, change in changes.items() for word in (f"--{key}", change["run"]) if change["run"]]
