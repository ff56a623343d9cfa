"""Gaps of docs/results.md: seeds and questions that have no run, and runs that must be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ners_controls
import offline
import search
import shared_sweeps
import staleness
from row_files import UNCOMMITTED, mark, measured, read
from row_table import lacking
from rows import ROWS

_WITHOUT_ROW = (
    "MinAtar over 5,000,000 env steps",
    "Breakout from pixels with sticky actions, 2,000,000 env steps",
    "SAC and TD3 on HalfCheetah-v5 and Hopper-v5, 300,000 env steps (`sac_td3.py returns`): like SB3's after 50,000",
    "data-efficient Rainbow on Freeway and Frostbite",
)
"""Questions whose answers are not in files of rows; what is known of some is in benchmarks/notes."""


@dataclass(frozen=True)
class _Part:
    """A part of the page: the script that measures it, what it is about, and its questions by name."""

    script: str
    what: str
    questions: Mapping[str, Any]
    names_measured: Callable[[], list[str]]
    file_of: Callable[[str], str]


_PARTS = (
    _Part("results.py", "", ROWS, lambda: measured(ROWS), str),
    _Part(
        "shared_sweeps.py",
        "a sweep that shares its replay, ",
        shared_sweeps.GAMES,
        shared_sweeps.measured_games,
        shared_sweeps.file_of,
    ),
    _Part("search.py", "a search for settings, ", search.TASKS, search.whole_tasks, search.file_of),
    _Part("staleness.py", "stale experience, ", staleness.TASKS, staleness.measured_tasks, staleness.file_of),
    _Part("offline.py", "from a log alone, ", offline.TASKS, offline.measured_tasks, offline.file_of),
    _Part(
        "ners_controls.py",
        "what NERS learns, ",
        ners_controls.QUESTIONS,
        ners_controls.measured_questions,
        ners_controls.file_of,
    ),
)


def section() -> list[str]:
    """Return the lines for docs/results.md."""
    missing = "; ".join([*_without_seeds(), *_without_runs(), *_WITHOUT_ROW])
    again = "; ".join(_to_repeat())
    lines = ["", "## Not measured yet", "", f"{missing}."]
    return [*lines, f"To be measured again ({UNCOMMITTED}): {again}."] if again else lines


def _without_seeds() -> Iterator[str]:
    """Yield the measured rows that lack seeds, those with the same sides together."""
    found: dict[str, list[str]] = {}
    for name in measured(ROWS):
        found.setdefault(", ".join(lacking(ROWS[name], read(name))), []).append(name)
    return (f"`results.py {' '.join(names)}`: seeds of {sides}" for sides, names in found.items() if sides)


def _without_runs() -> Iterator[str]:
    """Yield the questions without an answer, each with the script that would give it."""
    for part in _PARTS:
        known = part.names_measured()
        if names := [name for name in part.questions if name not in known]:
            titles = "; ".join(part.questions[name].title for name in names)
            yield f"`{part.script} {' '.join(names)}`: {part.what}{titles}"


def _to_repeat() -> Iterator[str]:
    """Yield the commands whose runs had settings of a tree that was not committed."""
    for part in _PARTS:
        sides = {name: read(part.file_of(name))["sides"] for name in part.questions}
        if names := [name for name, runs in sides.items() if any(map(mark, runs.values()))]:
            yield f"`{part.script} {' '.join(names)}`"
