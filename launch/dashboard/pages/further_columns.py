"""Columns of the table of runs that the user chooses: settings, and facts about a run beyond those always shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from launch.dashboard.comparing import flat, show_setting
from launch.dashboard.library import Library, Summary
from launch.dashboard.notes import Note
from launch.recording.metric_table import EVALUATION
from launch.recording.progress import duration
from launch.records.listing import printable

MOST_COLUMNS = 20

_FACTS: dict[str, Callable[[Summary], Any]] = {
    "created": lambda summary: printable(str(summary.entry.record.get("created", "")), 40),
    "duration": lambda summary: duration(summary.latest.moment.seconds) if summary.latest.moment else "",
    "evaluation": lambda summary: _finite(summary.latest.values.get(EVALUATION)),
    "learner steps": lambda summary: summary.latest.moment.learner_steps if summary.latest.moment else None,
    "command": lambda summary: printable(str(summary.entry.record.get("command", ""))),
}
_WRITTEN = ("note", "tags")
_NUMBERS = ("evaluation", "learner steps")
_NOT_SETTINGS = ("run-dir", "quiet", "json", "resume")


def offered_columns(library: Library, chosen: Sequence[str]) -> list[str]:
    """Return the names of columns to choose from: facts, and the settings that differ between any runs."""
    values: dict[str, set[str]] = {}
    for entry in library.entries().values():
        for key, value in flat(entry.config).items():
            values.setdefault(printable(key), set()).add(repr(value))
    differing = sorted(key for key, found in values.items() if len(found) > 1 and key not in _NOT_SETTINGS)
    return list(dict.fromkeys([*_WRITTEN, *_FACTS, *differing, *chosen]))


def further_columns(chosen: Sequence[str]) -> list[dict[str, Any]]:
    """Return the definitions of chosen columns for the table."""
    columns = []
    for name in chosen:
        column: dict[str, Any] = {"headerName": name.rpartition(".")[2], "headerTooltip": name, "width": 120}
        column |= {"field": _field(name), "filter": "agTextColumnFilter", "tooltipField": _field(name)}
        if name in _NUMBERS:
            column |= {"valueFormatter": {"function": "shown(params)"}, "type": "rightAligned"}
            column |= {"filter": "agNumberColumnFilter", "filterParams": {"defaultOption": "greaterThanOrEqual"}}
        columns.append(column)
    return columns


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
        return _FACTS[name](summary) if name in _FACTS else _cell(settings.get(name))

    return {_field(name): cell(name) for name in chosen}


def _own_tags(summary: Summary) -> str:
    return str(summary.entry.config.get("tag", "") or "")


def _field(name: str) -> str:
    """Return the name of a column's field: a dot would mean a value inside a value."""
    return "c_" + re.sub(r"\W", "_", name)


def _cell(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return "" if value is None else printable(show_setting(value), 80)


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None
