"""Waits that are under way, by thread, so that one that takes long can be named to the user."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_WAITS: dict[int, list[Wait]] = {}


@dataclass(frozen=True, eq=False)
class Wait:
    """A wait that is under way.

    Args:
        what: words for what is waited for, which may change meanwhile; "": nothing that the user need know.
        begun_at: by `time.monotonic`.
    """

    what: Callable[[], str]
    begun_at: float = field(default_factory=time.monotonic)


@contextmanager
def waiting_for(what: str | Callable[[], str]) -> Iterator[None]:
    """Note what this thread waits for inside the block, as in "the learner to start"."""
    waits = _WAITS.setdefault(threading.get_ident(), [])
    waits.append(Wait(what if callable(what) else lambda: what))
    try:
        yield
    finally:
        waits.pop()
        if not waits:
            del _WAITS[threading.get_ident()]


def current_wait(thread: int) -> Wait | None:
    """Return the innermost wait of a thread, given by its identifier; None if it is not waiting."""
    waits = _WAITS.get(thread)
    try:
        return waits[-1] if waits else None
    except IndexError:  # it ended just now
        return None
