"""Environments behind one vector interface, one file per suite."""

from __future__ import annotations

import dataclasses
import warnings

from laser.config import key_of
from laser.environments.base import EnvironmentFailedError, Transition, VectorEnvironment
from laser.environments.config import EnvironmentConfig
from laser.environments.suite import Suite, find_suite
from laser.specs import EnvironmentSpec

__all__ = [
    "EnvironmentConfig",
    "EnvironmentFailedError",
    "Transition",
    "VectorEnvironment",
    "describe_environment",
    "make_environment",
]

# They say what happens around an environment, in every suite.
_COMMON_FLAGS = frozenset({"deadline_s", "max_restarts"})


def make_environment(id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
    """Return `num_envs` environments of one id behind the vector interface.

    Args:
        id: what a user writes: a Gymnasium id, `ALE/Game-v5`, or `module:Name-v0`, which imports `module`.
        num_envs: environments in the vector.
        config: how they are made.

    Raises:
        ConfigError: an unknown id, a package that is missing, or spaces that LASER does not support.

    Warns:
        UserWarning: once, naming the flags that were set and change nothing in this suite.
    """
    suite = find_suite(id)
    _warn_of_idle_flags(suite, config)
    return suite.make(id, num_envs, config)


def describe_environment(id: str, config: EnvironmentConfig) -> EnvironmentSpec:
    """Return what an environment offers; builds one and closes it. Raises as `make_environment` does."""
    environment = make_environment(id, 1, dataclasses.replace(config, vectorization="auto"))
    spec = environment.spec
    environment.close()
    return spec


def _warn_of_idle_flags(suite: Suite, config: EnvironmentConfig) -> None:
    idle = [
        f"--environment.{key_of(field.name)}"
        for field in dataclasses.fields(config)
        if field.name not in suite.flags | _COMMON_FLAGS and getattr(config, field.name) != field.default
    ]
    if idle:
        warnings.warn(f"{', '.join(idle)}: no effect on {suite.name} environments", UserWarning, stacklevel=2)
