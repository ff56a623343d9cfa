"""Environments with one vector interface, one file per suite."""

from __future__ import annotations

import dataclasses
import os
import warnings
from contextlib import ExitStack

import numpy as np

from laser.config import ConfigError, Problem, key_of
from laser.environments.base import EnvironmentFailedError, Transition, VectorEnvironment
from laser.environments.config import EnvironmentConfig
from laser.environments.multi_task import MultiTaskEnvironments, join_specs, share_out, task_ids, tasks_of
from laser.environments.suite import Suite, find_suite
from laser.specs import EnvironmentSpec

__all__ = [
    "EnvironmentConfig",
    "EnvironmentFailedError",
    "Transition",
    "VectorEnvironment",
    "default_emulation_threads",
    "describe_environment",
    "make_environment",
    "settings_without_effect",
    "task_ids",
    "tasks_of",
]

# Flags that work in every suite, or for every environment of a kind: the handling of failures, pictures, masks, bounds.
_COMMON_FLAGS = frozenset(
    {
        "deadline_s",
        "max_restarts",
        "restart_window_steps",
        "picture_size",
        "pictures",
        "action_masks",
        "action_bounds",
    }
)


def make_environment(
    id: str, num_envs: int, config: EnvironmentConfig, first_environment: int = 0, num_actors: int = 1
) -> VectorEnvironment:
    """Return a vector of environments of one id, or of several ids that are spread over it.

    Args:
        id: the user's text: a Gymnasium id, `ALE/Game-v5`, or `module:Name-v0` or `module:Class` after an import of it;
            several ids with commas between them; or a named set such as `dmlab30`.
        num_envs: number of environments in the vector.
        config: settings of the environments.
        first_environment: for several tasks: number of the same agent's environments before this vector.
        num_actors: actors that emulate on this machine at the same time, and share its cores.

    Raises:
        ConfigError: the id is unknown, a package is missing, or spaces are not supported or differ between tasks.

    Warns:
        UserWarning: flags were set that have no effect in this suite; the message names them.
    """
    ids = task_ids(id)
    for suite in {suite.name: suite for suite in map(find_suite, ids)}.values():
        _check_flags(suite, config)
    if not config.emulation_threads:
        config = dataclasses.replace(config, emulation_threads=default_emulation_threads(num_actors))
    if len(ids) == 1:
        return find_suite(ids[0]).make(ids[0], num_envs, config)
    tasks = share_out(len(ids), num_envs, first_environment)
    counts = np.bincount(tasks, minlength=len(ids))
    with ExitStack() as stack:
        parts: dict[int, VectorEnvironment] = {}
        for task in np.flatnonzero(counts).tolist():
            parts[task] = find_suite(ids[task]).make(ids[task], int(counts[task]), config)
            stack.callback(parts[task].close)
        shared = join_specs(id, [part.spec for part in parts.values()])
        stack.pop_all()
    return MultiTaskEnvironments(dataclasses.replace(shared, tasks=ids), tasks, parts)


def default_emulation_threads(num_actors: int) -> int:
    """Return an actor's share of half the cores that this process may use: the rest is for inference and learning."""
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, num_cores // 2 // num_actors)


def describe_environment(id: str, config: EnvironmentConfig) -> EnvironmentSpec:
    """Return the spec of an environment, or the common spec of several; builds one of each.

    Raises:
        ConfigError: as `make_environment` does.
    """
    ids = task_ids(id)
    suites = [find_suite(each) for each in ids]
    for suite in {suite.name: suite for suite in suites}.values():
        _check_flags(suite, config)
    specs = [suite.describe(each, config) for suite, each in zip(suites, ids, strict=True)]
    return specs[0] if len(specs) == 1 else join_specs(id, specs)


def _check_flags(suite: Suite, config: EnvironmentConfig) -> None:
    if config.wrappers and "wrappers" not in suite.flags:
        wrong = f"{suite.name} environments cannot be wrapped"
        raise ConfigError([Problem("environment.wrappers", wrong, "leave it out")])
    idle = [f"--environment.{key_of(name)}" for name in _idle(suite, config)]
    if idle:
        warnings.warn(f"{', '.join(idle)}: no effect on {suite.name} environments", UserWarning, stacklevel=2)


def settings_without_effect(id: str, config: EnvironmentConfig) -> list[str]:
    """Return the fields of a config that ask for something which none of an id's suites does.

    Raises:
        ConfigError: the id names no environment.
    """
    suites = {suite.name: suite for suite in map(find_suite, task_ids(id))}.values()
    idle = [_idle(suite, config) for suite in suites]
    return [name for name in idle[0] if all(name in each for each in idle)]


def _idle(suite: Suite, config: EnvironmentConfig) -> list[str]:
    return [
        field.name
        for field in dataclasses.fields(config)
        if field.name not in suite.flags | _COMMON_FLAGS
        and getattr(config, field.name) not in (field.default, False)  # a flag that is off asks for nothing
    ]
