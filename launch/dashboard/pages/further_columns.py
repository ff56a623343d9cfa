"""Columns of the table of runs that the user chooses: settings, and facts about a run beyond those always shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launch.dashboard.comparing import flat, show_setting
from launch.dashboard.library import Library, Summary
from launch.dashboard.notes import Note
from launch.dashboard.table_view import NUMBER_FILTER, TEXT_FILTER
from launch.recording.metric_table import EVALUATION
from launch.records.listing import printable

MOST_COLUMNS = 20

_FACTS: dict[str, Callable[[Summary], Any]] = {
    "created": lambda summary: printable(str(summary.entry.record.get("created", "")), 40),
    "duration": lambda summary: summary.latest.moment.seconds if summary.latest.moment else None,
    "evaluation": lambda summary: _finite(summary.latest.values.get(EVALUATION)),
    "learner steps": lambda summary: summary.latest.moment.learner_steps if summary.latest.moment else None,
    "command": lambda summary: printable(str(summary.entry.record.get("command", ""))),
}
_WRITTEN = ("note", "tags")
_AT_LEAST = {
    "filter": NUMBER_FILTER,
    "filterParams": {"defaultOption": "greaterThanOrEqual"},
    "type": "rightAligned",
}
BEST_FIRST: dict[str, Any] = {"sortingOrder": ["desc", "asc", None]}
"""A click on the head of a return sorts from the best."""
_ABOUT_NUMBERS = "{}; type a number below to keep the runs with at least this value"
_ABOUT_DURATION = "time of training; type a number N below to keep the runs of at least N minutes"
_NOT_SETTINGS = ("run-dir", "quiet", "json", "resume")


def offered_columns(library: Library, chosen: Sequence[str]) -> list[str]:
    """Return the names of columns to choose from: facts, and the settings that differ between any runs."""
    differing = sorted(key for key, found in _settings(library).items() if len(found) > 1 and key not in _NOT_SETTINGS)
    return list(dict.fromkeys([*_WRITTEN, *_FACTS, *differing, *chosen]))


def known_columns(library: Library) -> set[str]:
    """Return the names of all columns that have a value in some run, offered or not."""
    return {*_WRITTEN, *_FACTS, *_settings(library)}


def _settings(library: Library) -> dict[str, set[str]]:
    """Return the different values of every setting, by its key."""
    values: dict[str, set[str]] = {}
    for entry in library.entries().values():
        for key, value in flat(entry.config).items():
            values.setdefault(printable(key), set()).add(repr(value))
    return values


def further_columns(chosen: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the definitions of chosen columns for the table.

    Args:
        chosen: names of columns.
        rows: of the table; a column whose values are numbers is one of numbers.
    """
    return [_column(name, rows) for name in chosen]


def _column(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    field = field_of(name)
    column: dict[str, Any] = {
        "headerName": name.rpartition(".")[2],
        "headerTooltip": name,
        "width": 120,
        "field": field,
    }
    if name == "duration":
        how = {"valueFormatter": {"function": "lasted(params)"}, "filterValueGetter": {"function": "minutes(params)"}}
        return column | _AT_LEAST | how | {"headerTooltip": _ABOUT_DURATION}
    column |= {"tooltipField": field}
    known = [row[field] for row in rows if row.get(field) is not None]
    if name not in ("evaluation", "learner steps") and not (known and all(map(_is_number, known))):
        return column | {"filter": TEXT_FILTER}
    column |= _AT_LEAST | {"headerTooltip": _ABOUT_NUMBERS.format(name)} | (BEST_FIRST if name == "evaluation" else {})
    # A seed is a name: it is never rounded.
    return column if name == "seed" else column | {"valueFormatter": {"function": "shown(params)"}}


def further_cells(summary: Summary, chosen: Sequence[str], note: Note) -> dict[str, Any]:
    """Return a run's values in the chosen columns.

    Args:
        summary: of the run.
        chosen: names of columns.
        note: what users have written about it.
    """
    written = {
        "note": printable(note.note),
        "tags": printable(", ".join(filter(None, (_own_tags(summary), note.tags)))),
    }
    settings = flat(summary.entry.config) if any(name not in _FACTS for name in chosen) else {}

    def cell(name: str) -> Any:
        if name in written:
            return written[name]
        return _FACTS[name](summary) if name in _FACTS else _cell(name, settings.get(name))

    return {field_of(name): cell(name) for name in chosen}


def _own_tags(summary: Summary) -> str:
    return str(summary.entry.config.get("tag", "") or "")


def field_of(name: str) -> str:
    """Return the name of a column's field: a dot would mean a value inside a value."""
    return "c_" + re.sub(r"\W", "_", name)


def _cell(name: str, value: Any) -> Any:
    return value if value is None or _is_number(value) else printable(show_setting(value, name), 80)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None
