"""Threads for code of the user's that may never return, such as the constructor of an environment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_LOOK_S = 0.5


class ForeignThread(threading.Thread):
    """A daemon thread that runs code of the user's. A process with one that hangs has to be ended at once."""

    def __init__(self, target: Callable[[], Any], name: str):
        super().__init__(target=target, name=name, daemon=True)


def left_behind() -> list[str]:
    """Return the names of such threads that still run in this process."""
    return [thread.name for thread in threading.enumerate() if isinstance(thread, ForeignThread)]


class Phases:
    """The phases of a piece of foreign code, each with a deadline of its own. One thread enters, another one looks."""

    def __init__(self) -> None:
        self._now = ("", float("inf"), time.monotonic())

    def enter(self, words: str, deadline_s: float) -> None:
        """Begin a phase, e.g. "close()"."""
        self._now = (words, deadline_s, time.monotonic())

    @property
    def words(self) -> str:
        """The present phase."""
        return self._now[0]

    @property
    def hung_s(self) -> float:
        """The deadline of the present phase in seconds, if it has passed; else 0."""
        _, deadline_s, begun_at = self._now
        return deadline_s if time.monotonic() - begun_at > deadline_s else 0.0


class HungError(TimeoutError):
    """Foreign code did not return; its thread is left behind. The message says from what, and for how long."""


def run_in_phases(work: Callable[[Phases], T], phases: Phases, name: str) -> T:
    """Return the result of foreign code that runs in a thread of its own, or raise its error.

    Args:
        work: the code, which enters a phase before each call that may hang.
        phases: its phases.
        name: name of the thread.

    Raises:
        HungError: a phase took longer than its deadline.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(phases))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is waited for
            errors.append(error)

    thread = ForeignThread(run, name)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
        if thread.is_alive() and phases.hung_s:
            raise HungError(f"{phases.words} for {phases.hung_s:g} s")
    if errors:
        raise errors[0]
    return results[0]
