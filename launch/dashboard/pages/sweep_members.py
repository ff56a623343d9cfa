"""The table of a sweep's members: its columns, its rows, and marks in the colours of the members' curves."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import dash_ag_grid
from dash import dcc, html

from launch.dashboard.address import Address, address_of
from launch.dashboard.comparing import flat, setting_label
from launch.dashboard.figures import as_text
from launch.dashboard.library import Library
from launch.dashboard.member_groups import member_label
from launch.dashboard.pages.further_columns import BEST_FIRST, field_of
from launch.dashboard.sweeps import Decision
from launch.dashboard.table_view import COLUMN_DEFAULTS, NUMBER_FILTER, TEXT_FILTER, filters_of, sort_of
from launch.evaluation.settings_compared import SettingReturns
from launch.recording.metric_table import EVALUATION, RATE, RETURN
from launch.records.listing import Entry, member_number, printable

FIRST_ORDER = ("return:desc",)

_TEXT = {"filter": TEXT_FILTER}
_NUMBER = {
    "filter": NUMBER_FILTER,
    "filterParams": {"defaultOption": "greaterThanOrEqual"},
    "type": "rightAligned",
}
_SHOWN = _NUMBER | {"valueFormatter": {"function": "shown(params)"}}
_COUNTED = _NUMBER | {"valueFormatter": {"function": "counted(params)"}}
_MARK = {
    "headerName": "",
    "field": "curves",
    "cellRenderer": "CurveMark",
    "width": 48,
    "pinned": "left",
    "sortable": False,
    "floatingFilter": False,
    "resizable": False,
    "headerTooltip": "the member's line in the figure of all members; a click keeps it in front",
}


def members_table(
    address: Address, keys: Sequence[str], rows: Sequence[dict[str, Any]], *, evolving: bool
) -> list[Any]:
    """Return the table, and what its script restores from the address.

    Args:
        address: of the page.
        keys: in which members differ.
        rows: see `rows_of_members`.
        evolving: whether members change their settings while they train.
    """
    heads = columns(keys, rows, evolving=evolving)
    start = {
        "filter": filters_of(address, heads)[0],
        "sort": sort_of(address, heads, FIRST_ORDER)[0],
        "first": list(FIRST_ORDER),
        "at": address.moment,
    }
    grid = dash_ag_grid.AgGrid(
        id="members",
        columnDefs=heads,
        rowData=list(rows),
        getRowId="params.data.key",
        defaultColDef=COLUMN_DEFAULTS,
        dashGridOptions={"animateRows": False, "rowHeight": 32, "headerHeight": 36},
        style={"height": f"{min(366, 80 + 32 * max(2, len(rows)))}px"},
    )
    return [grid, dcc.Store(id="members-start", data=start), dcc.Store(id="members-open")]


def missing(address: Address, keys: Sequence[str], rows: Sequence[dict[str, Any]], *, evolving: bool) -> list[str]:
    """Return in words the filters and the order that the address asks for and the table cannot have."""
    heads = columns(keys, rows, evolving=evolving)
    return [*filters_of(address, heads)[1], *sort_of(address, heads)[1]]


def columns(keys: Sequence[str], rows: Sequence[dict[str, Any]], *, evolving: bool) -> list[dict[str, Any]]:
    """Return the columns of the table; without evaluations there is no column for them.

    Args:
        keys: in which members differ.
        rows: a setting whose values are numbers has a column of numbers.
        evolving: whether members change their settings while they train.
    """
    found = [
        _MARK,
        {"headerName": "member", "field": "name", "cellRenderer": "RunLink", "width": 120, "pinned": "left", **_TEXT},
        {"headerName": "status", "field": "status", "cellRenderer": "Status", "width": 112, **_TEXT},
        *(_setting_column(key, rows) for key in keys),
        {"headerName": "return", "field": "return", "width": 100, **_SHOWN, **BEST_FIRST},
        {"headerName": "evaluation", "field": "evaluation", "width": 110, **_SHOWN, **BEST_FIRST},
        {"headerName": "env steps", "field": "env_steps", "width": 110, **_COUNTED},
        {"headerName": "steps/s", "field": "rate", "width": 95, **_SHOWN},
        {"headerName": "copied", "field": "copied", "width": 90, **_SHOWN},
    ]
    left_out = set() if any(row["evaluation"] is not None for row in rows) else {"evaluation"}
    left_out |= set() if evolving else {"copied"}
    return [column for column in found if column["field"] not in left_out]


def _setting_column(key: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    field = field_of(key)
    column = {"headerName": printable(key.rpartition(".")[2]), "field": field, "width": 158}
    column |= {"headerTooltip": printable(key)}
    values = [row[field] for row in rows if row[field] is not None]
    if not values or not all(isinstance(value, int | float) for value in values):
        return column | _TEXT
    return column | (_NUMBER if key == "seed" else _SHOWN)


def rows_of_members(
    library: Library,
    members: list[Entry],
    keys: Sequence[str],
    decisions: list[Decision],
    settings: Sequence[SettingReturns] = (),
) -> list[dict[str, Any]]:
    """Return the rows of the table.

    Args:
        library: reads the numbers.
        members: of the sweep.
        keys: in which members differ.
        decisions: of a population.
        settings: of the members, whose lines the marks stand for where members have none of their own.
    """
    setting_of = {number: as_text(setting_label(one.settings)) for one in settings for number in one.members}
    rows = []
    for member in members:
        summary = library.summary(member)
        values, moment, index = summary.latest.values, summary.latest.moment, member_number(member)
        own = flat(member.config)
        newest = [decision.settings for decision in decisions if decision.member == index]
        own |= newest[-1] if newest else {}
        curves = [as_text(member_label(member)), *([setting_of[index]] if index in setting_of else [])]
        rows.append(
            {
                "key": member.key,
                "number": index,
                "href": address_of(member),
                "name": member_label(member),
                "curves": json.dumps(curves),
                "status": summary.status,
                "return": _finite(values.get(RETURN)),
                "evaluation": _finite(values.get(EVALUATION)),
                "env_steps": moment.env_steps if moment else None,
                "rate": _finite(values.get(RATE)),
                "copied": sum(d.member == index and d.copied is not None for d in decisions),
                **{field_of(key): _setting(own.get(key)) for key in keys},
                "settings": {key: _setting(own.get(key)) for key in keys},
            }
        )
    return rows


def curve_mark(name: str, curves: Sequence[str]) -> html.Button:
    """Return the mark of a row, which assets/curves.js gives the colour of the row's curve.

    Args:
        name: of the row.
        curves: names of the lines that it stands for, as Plotly has them; that drawn alone has the mark's colour.
    """
    about = f"keep the line of {name} in front"
    marks: dict[str, Any] = {"data-curves": json.dumps(list(curves)), "aria-pressed": "false", "aria-label": about}
    return html.Button(type="button", className="curve-mark", title=about, **marks)


def _setting(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return printable(json.dumps(value).strip('"'))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
