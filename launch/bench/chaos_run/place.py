"""The place of a run: what its command needs there, and how its processes are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import psutil


class Place(Protocol):
    """Interface of a place."""

    @property
    def prefix(self) -> Sequence[str]:
        """Words before the run's command."""

    @property
    def words(self) -> Sequence[str]:
        """Words at the end of the run's command."""

    @property
    def environment(self) -> Mapping[str, str] | None:
        """Environment variables of the run's command; None: those of this process."""

    def processes_of(self, main: psutil.Process) -> list[psutil.Process]:
        """Return the processes that must end with a main process of the run.

        Raises:
            psutil.Error: the main process has just ended.
        """


class OneMachine:
    """The place of a run on a Ray of its own: all its processes descend from its main process."""

    prefix: Sequence[str] = ()
    words: Sequence[str] = ("--runtime", "ray")
    environment: Mapping[str, str] | None = None

    def processes_of(self, main: psutil.Process) -> list[psutil.Process]:
        """Return the descendants of a main process, Ray's own among them."""
        descendants: list[psutil.Process] = main.children(recursive=True)
        return descendants


def titled(processes: Iterable[psutil.Process], title: str) -> list[psutil.Process]:
    """Return those processes whose command begins with a title, by which `ps` shows them."""
    return [process for process in processes if _command(process).startswith(title)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it has just ended
