"""Writing of data sets, with the mistakes of their names and contents as problems of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from laser.config import ConfigError, Problem
from laser.logs.episodes import LogError, LoggedEpisode
from laser.logs.minari_log import check_new_name, check_writable, write_minari
from laser.logs.names import PREFIX
from laser.specs import EnvironmentSpec


def check_log(key: str, name: str, environment: EnvironmentSpec | None = None) -> None:
    """Raise `ConfigError` unless a data set can be written under a name.

    Args:
        key: that the user gave the name by.
        name: minari:NAMESPACE/NAME-vN.
        environment: that the episodes are played in; None: not known yet.
    """
    if not name.startswith(PREFIX):
        raise ConfigError([Problem(key, f"must be {PREFIX}NAMESPACE/NAME-vN, got {name!r}")])
    with _as_problem_of(key):
        check_new_name(name)
        if environment is not None:
            check_writable(environment)


def write_log(
    key: str, name: str, environment: EnvironmentSpec, episodes: Iterable[LoggedEpisode], algorithm: str
) -> int:
    """Write a data set, and return its number of episodes.

    Args:
        key: that the user gave the name by.
        name: see `check_log`.
        environment: that the episodes were played in.
        episodes: at least one.
        algorithm: its name, for the data set's description.

    Raises:
        ConfigError: the name cannot be used, there is no episode, or the disk refuses it.
    """
    with _as_problem_of(key):
        return write_minari(name, environment, episodes, algorithm)


@contextmanager
def _as_problem_of(key: str) -> Iterator[None]:
    try:
        yield
    except LogError as error:
        wrong, _, remedy = str(error).partition("; ")
        raise ConfigError([Problem(key, wrong, remedy)]) from error
