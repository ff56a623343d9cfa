"""The working directory in which a run began. An environment may change that of the process, and files must stay found.

Messages name files as the user typed them. May be used from any thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ACTIVE: list[_Start] = []


class _Start:
    """A working directory, and the relative paths that were looked up in it, by their absolute ones."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.typed: dict[str, str] = {}


@contextmanager
def paths_from_here() -> Iterator[None]:
    """Let relative paths lie in the present working directory until the block ends, whatever it is by then."""
    start = _Start(working_directory())
    _ACTIVE.append(start)
    try:
        yield
    finally:
        _ACTIVE.remove(start)


def working_directory() -> Path:
    """Return the working directory in which the run began; without a run that of the process."""
    if _ACTIVE:
        return _ACTIVE[0].directory
    with suppress(FileNotFoundError):  # it was deleted, so relative paths lead nowhere
        return Path.cwd()
    return Path()


def located(path: Path) -> Path:
    """Return where a path of the user's lies, absolute while a run goes on."""
    if not _ACTIVE or path.is_absolute():
        return path
    place = _ACTIVE[0].directory / path
    if path.parts:
        _ACTIVE[0].typed[str(place)] = str(path)
    return place


def as_typed(text: str) -> str:
    """Return a text in which the paths that `located` made absolute are as the user typed them."""
    for start in _ACTIVE:
        for place, typed in list(start.typed.items()):
            text = typed.join(re.split(rf"(?<![\w./-]){re.escape(place)}(?![\w.-])", text))
    return text
