"""Suites of environments, their discovery, and errors about ids: one file in this folder holds one `Suite`."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from laser.config import ConfigError, Problem
from laser.discovery import find_strategies
from laser.environments.base import RAISED, EnvironmentFailedError, VectorEnvironment, failure_of
from laser.environments.config import EnvironmentConfig
from laser.foreign_threads import HungError, Phases, run_in_phases
from laser.specs import EnvironmentSpec
from laser.waiting import waiting_for


class Suite(ABC):
    """Environments of one kind. Subclasses are discovered in the modules of this package.

    The import of a module must not need the suite's packages; they are imported when an environment is made.
    """

    name: ClassVar[str]
    # Fields of EnvironmentConfig with an effect in this suite, beside those for the handling of failures.
    flags: ClassVar[frozenset[str]]
    # Suites are asked in this order; the one that claims every id comes last.
    rank: ClassVar[int] = 0

    @abstractmethod
    def claims(self, id: str) -> bool:
        """Return whether an id has the form of this suite's ids; it need not exist."""

    @abstractmethod
    def ids(self) -> list[str]:
        """Return known ids, for suggestions; empty if the suite is not installed."""

    @abstractmethod
    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return a vector of environments.

        Raises:
            ConfigError: the id is unknown, or the environment cannot be built for a reason that the user can fix.
        """

    def describe(self, id: str, config: EnvironmentConfig) -> EnvironmentSpec:
        """Return the spec of an environment; build one and close it. Raises as `make` does.

        To see whether there are action masks takes a reset; one that raises is tried again with a new environment. All
        of this happens in a thread of its own: an environment that does not return is an error at its deadline.
        """
        phases = Phases()
        try:
            with waiting_for(lambda: f"{id} to return from {phases.words}"):
                return run_in_phases(partial(self._look_at, id, config), phases, f"first look at {id}")
        except HungError as error:
            raise env_error(f"{id} did not return from {error}", "mend it, or raise environment.deadline-s") from error

    def _look_at(self, id: str, config: EnvironmentConfig, phases: Phases) -> EnvironmentSpec:
        phases.enter("its construction or first reset", config.construction_deadline_s)
        try:
            try:
                environment = self.make_one(id, config)
            except EnvironmentFailedError as error:
                if error.reason == "hung":
                    raise
                environment = self.make_one(id, config)
        except EnvironmentFailedError as error:
            raise env_error(f"{id} cannot be reset: {error}", "mend its reset()") from error
        phases.enter("close()", config.deadline_s)
        try:
            environment.close()
        except RAISED as error:
            raise env_error(f"{id} cannot be closed: {failure_of(error)}", "mend its close()") from error
        return environment.spec

    def make_one(self, id: str, config: EnvironmentConfig) -> VectorEnvironment:
        """Return one environment in this process, to describe it."""
        return self.make(id, 1, replace(config, vectorization="auto"))


def find_suites() -> list[Suite]:
    """Return an instance of every suite in this package, in the order in which they are asked."""
    found: list[Suite] = [suite() for suite in find_strategies("laser.environments", Suite)]
    return sorted(found, key=lambda suite: (suite.rank, suite.name))


def find_suite(id: str) -> Suite:
    """Return the suite that an id belongs to."""
    return next(suite for suite in find_suites() if suite.claims(id))


def env_error(wrong: str, remedy: str) -> ConfigError:
    """Return the error for a mistake in `--env`."""
    return ConfigError([Problem("env", wrong, remedy)])


def unknown_id(id: str) -> ConfigError:
    """Return the error for an unknown id; the message suggests similar ids that exist."""
    known = [name for suite in find_suites() for name in suite.ids()]
    stem = id.rsplit("-v", 1)[0].lower()
    same_name = [name for name in known if name.rsplit("-v", 1)[0].lower() == stem]
    same_name.sort(key=lambda name: [int(part) if part.isdigit() else 0 for part in name.rsplit("-v", 1)[1:]])
    lower = {name.lower(): name for name in known}
    near = [lower[name] for name in difflib.get_close_matches(id.lower(), lower, n=3, cutoff=0.6)]
    # "Pong-v5" means "ALE/Pong-v5", but is too short to count as similar.
    near += [name for name in known if name.lower().endswith("/" + id.lower())]
    same_game = [name for name in known if name.lower() == prepared_atari(id).lower()]
    suggestions = list(dict.fromkeys(same_game or [*same_name[::-1], *near]))[:3]
    if Path(f"{id}.py").is_file():
        return env_error(
            f"{id!r} is a module", f"name an environment of it: {id}:CLASS, or {id}:ID for one it registers"
        )
    if suggestions:
        return env_error(f"unknown environment {id!r}", f"did you mean {' or '.join(suggestions)}?")
    family = [name for name in known if "/" in id and name.lower().startswith(id.partition("/")[0].lower() + "/")]
    if family:
        return env_error(f"unknown environment {id!r}", f"there are {len(family)}, such as {', '.join(family[:3])}")
    return env_error(
        f"unknown environment {id!r}",
        "use a Gymnasium id such as CartPole-v1 or ALE/Pong-v5, or module:Name-v0 for one that a module registers",
    )


def prepared_atari(id: str) -> str:
    """Return the id of a game that LASER prepares, from another id of it: `PongNoFrameskip-v4` -> `ALE/Pong-v5`."""
    game = id.rpartition(":")[2].removeprefix("ALE/")
    return f"ALE/{re.sub('(-ram)?(NoFrameskip|Deterministic)?-v.*', '', game)}-v5"


def split_seed(seed: int | None, num_envs: int) -> list[int | None]:
    """Return a seed in [0, 2^31) for each environment; vectors of neighbouring seeds share none of them."""
    if seed is None:
        return [None] * num_envs
    return [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(num_envs)]
