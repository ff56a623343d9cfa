"""The page of all runs: a table with sorting and filters; the comparison below it draws the runs that are ticked."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import dash_ag_grid
from dash import ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from launch.dashboard.address import Address, Control, address_of, controls_store, remember_controls
from launch.dashboard.checked import texts
from launch.dashboard.comparing import setting_label
from launch.dashboard.library import Library, Summary
from launch.dashboard.member_groups import best_of_sweep, settings_among
from launch.dashboard.not_here import beyond, not_here, quoted, unknown
from launch.dashboard.pages import comparison
from launch.dashboard.pages.further_columns import (
    BEST_FIRST,
    MOST_COLUMNS,
    further_cells,
    further_columns,
    known_columns,
    offered_columns,
)
from launch.dashboard.pages.parts import clock, labelled
from launch.dashboard.pages.sweep_tables import evolves
from launch.dashboard.table_view import COLUMN_DEFAULTS, NUMBER_FILTER, TEXT_FILTER, filters_of, sort_of
from launch.recording.metric_table import RATE, RETURN
from launch.records import listing
from launch.records.listing import Entry, printable
from launch.records.run_summary import NUM_RETURNS


def _column(name: str, field: str, width: int, **more: Any) -> dict[str, Any]:
    return {"headerName": name, "field": field, "width": width, **more}


_TEXT = {"filter": TEXT_FILTER}
_NUMBER = {
    "filter": NUMBER_FILTER,
    "filterParams": {"defaultOption": "greaterThanOrEqual"},
    "headerTooltip": "type a number below to keep the runs with at least this value",
    "type": "rightAligned",
    "valueFormatter": {"function": "shown(params)"},
}
_COUNT = _NUMBER | {"valueFormatter": {"function": "counted(params)"}}
_AGE = _NUMBER | {
    "filterParams": {"defaultOption": "lessThanOrEqual"},
    "filterValueGetter": {"function": "hours(params)"},
    "headerTooltip": "since the newest numbers; type a number N below to keep the runs of the last N hours",
    "valueFormatter": {"function": "ago(params)"},
}
_ABOUT_RETURN = (
    f"the mean of the last {NUM_RETURNS} episodes; of a sweep with seeds: of its best setting over them, of another "
    "sweep: of its best member"
)
_BEST_RETURN = (
    _NUMBER
    | BEST_FIRST
    | {
        "headerTooltip": f"the highest mean return of {NUM_RETURNS} episodes, and the env steps where it was reached",
        "valueFormatter": {"function": "best(params)"},
    }
)
_MARK = {"cellRenderer": "Mark", "pinned": "left", "sortable": False, "floatingFilter": False, "resizable": False}
_COLUMNS = [
    _column("", "mark", 60, headerTooltip="colour in the comparison; the eye hides a run there", **_MARK),
    _column("run", "name", 224, cellRenderer="RunLink", pinned="left", wrapText=True, autoHeight=True, **_TEXT),
    _column("status", "status", 96, cellRenderer="Status", tooltipField="problem", **_TEXT),
    _column("kind", "kind", 78, **_TEXT),
    _column("preset", "preset", 84, **_TEXT),
    _column("environment", "env", 100, tooltipField="env", **_TEXT),
    _column("env steps", "env_steps", 84, **_COUNT),
    _column("frames", "frames", 86, **_COUNT),
    _column("return", "return", 76, **_NUMBER | BEST_FIRST | {"headerTooltip": _ABOUT_RETURN}),
    _column("best", "best", 132, **_BEST_RETURN),
    _column("steps/s", "rate", 74, **_NUMBER),
    _column("bottleneck", "bottleneck", 100, flex=1, minWidth=100, tooltipField="bottleneck", **_TEXT),
    _column("age", "age_s", 66, **_AGE),
]

_PATIENCE_S = 0.3
"""Seconds in which runs without a summary are read at once; the others are read in the background."""
_READING = "reading"
_ABOUT_READING = "the run has no summary of its numbers, so they are being read one run after another"

_CONTROLS = (Control("columns", "column", []), Control("archived", "archived", []))


def layout(library: Library, address: Address) -> Any:
    """Return the page."""
    chosen = [name for name in address.texts("column") if name][:MOST_COLUMNS]
    with_archived = bool(address.texts("archived"))
    rows = _rows(library, chosen, with_archived)
    columns = _columns(rows, chosen)
    keys = {row["name"]: row["key"] for row in rows}
    search = address.text("search")
    ticked = [keys[name] for name in address.texts("run") if name in keys]
    hidden = [keys[name] for name in address.texts("hide") if name in keys]
    filters, no_filters = filters_of(address, columns)
    sort, no_sort = sort_of(address, columns)
    missing = [
        *_missing_runs(library, address, keys),
        *no_filters,
        *no_sort,
        *unknown(address, "column", known_columns(library)),
        *beyond(address, "column", MOST_COLUMNS, "columns"),
        *comparison.missing(address),
    ]
    # Without a filter the comparison need not wait for the table.
    is_whole = not search and not filters
    view = {"ticked": ticked, "kept": None, "out": 0} if is_whole else None
    start = {
        "search": search,
        "filter": filters,
        "sort": sort,
        "hidden": hidden,
        "opened": [keys[name] for name in address.texts("opened") if name in keys],
        "at": address.moment,
    }
    return html.Div(
        [
            html.Div(
                [
                    html.H1("Runs"),
                    dcc.Input(
                        id="search",
                        type="search",
                        placeholder="filter: any word",
                        value=search,
                        debounce=False,
                        maxLength=200,
                    ),
                    html.Strong(id="kept", role="status"),
                    html.P(_where(library, rows), id="where", className="quiet"),
                    labelled(
                        "further columns",
                        dcc.Dropdown(
                            id="columns",
                            options=[{"label": name, "value": name} for name in offered_columns(library, chosen)],
                            value=chosen,
                            multi=True,
                            placeholder="settings, created, duration ...",
                        ),
                        "wide columns",
                    ),
                    labelled(
                        "archived",
                        dcc.Checklist(
                            id="archived",
                            options=[{"label": "show", "value": "show"}],
                            value=["show"] if with_archived else [],
                        ),
                        "choice",
                    ),
                ],
                className="line",
            ),
            not_here(missing),
            dash_ag_grid.AgGrid(
                id="table",
                columnDefs=columns,
                rowData=rows,
                selectedRows={"ids": ticked},
                getRowId="params.data.key",
                defaultColDef=COLUMN_DEFAULTS,
                dashGridOptions={
                    "rowSelection": {"mode": "multiRow", "enableClickSelection": True, "selectAll": "filtered"},
                    "selectionColumnDef": {"pinned": "left", "width": 44},
                    "animateRows": False,
                    "suppressColumnVirtualisation": True,
                    "isExternalFilterPresent": {"function": "true"},
                    "doesExternalFilterPass": {"function": "inside(params)"},
                    "postSortRows": {"function": "together(params)"},
                    "rowHeight": 34,
                    "headerHeight": 36,
                    "tooltipShowDelay": 300,
                },
                style={"height": f"{min(420, 108 + 34 * max(3, sum(not row['sweep'] for row in rows)))}px"},
            ),
            comparison.layout(address, hidden, has_frames=_has_frames(rows)),
            dcc.Store(id="table-start", data=start),
            dcc.Store(id="table-view", data=view),
            dcc.Store(id="table-open"),
            clock("runs-clock"),
            dcc.Store(id="runs-seen"),
            controls_store("runs", _CONTROLS, address),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Add the page's callbacks."""
    remember_controls(app, "runs", _CONTROLS)

    @app.callback(
        Output("table", "columnDefs"),
        Output("table", "rowData"),
        Output("where", "children"),
        Output("runs-seen", "data"),
        Input("runs-clock", "data"),
        Input("columns", "value"),
        Input("archived", "value"),
        State("runs-seen", "data"),
        prevent_initial_call=True,
    )
    def fill(_: Any, columns: Any, archived: Any, seen: Any) -> Any:
        chosen = texts(columns, MOST_COLUMNS)
        rows = _rows(library, chosen, bool(archived))
        # Ages do not count as changes: the page computes them from the time of the newest numbers.
        state = str(hash(str((rows, chosen))))
        if state == seen:
            raise PreventUpdate
        heads = _columns(rows, chosen) if ctx.triggered_id == "columns" else no_update
        return heads, rows, _where(library, rows), state

    # Search and choice run in the browser: a response that renders the table again may swallow a click on it.
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "search"),
        Input("search", "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "openTable"),
        Output("table-open", "data"),  # without an output it would not be called when the page opens
        Input("table-start", "data"),
        State("table-view", "data"),
    )
    comparison.register(app, library)


def _missing_runs(library: Library, address: Address, keys: Collection[str]) -> list[str]:
    """Return the runs that the address asks for and the table does not have: archived ones say so."""
    everything = {entry.name for entry in library.entries().values()}
    kinds = {"run": "run", "hide": "hidden run", "opened": "opened sweep"}
    return [
        f"{kind} {quoted(name)}" + (" (archived: show archived runs)" if name in everything else "")
        for place, kind in kinds.items()
        for name in address.texts(place)
        if name and name not in keys
    ]


def _columns(rows: list[dict[str, Any]], chosen: list[str]) -> list[dict[str, Any]]:
    """Return the columns, with those that the user chose; frames that equal the env steps of every run take none."""
    has_frames = _has_frames(rows)
    always = (column for column in _COLUMNS if has_frames or column["field"] != "frames")
    return [*always, *further_columns(chosen, rows)]


def _has_frames(rows: list[dict[str, Any]]) -> bool:
    return any(row["frames"] != row["env_steps"] for row in rows)


def _newest(summary: Summary) -> float:
    return summary.latest.moment.wall_time if summary.latest.moment else 0.0


def _rows(library: Library, chosen: Sequence[str] = (), with_archived: bool = False) -> list[dict[str, Any]]:
    """Return the rows; members of an archived sweep are archived too."""
    notes = library.notes.read()
    entries = library.entries()
    known = {entry.key: library.notes.among(notes, entry.path) for entry in entries.values()}
    out = {key for key, note in known.items() if note.archived and not with_archived}
    until = time.monotonic() + _PATIENCE_S
    summaries = [library.summary(each, until) for each in entries.values()]
    members: dict[str, list[Summary]] = defaultdict(list)
    for summary in summaries:
        members[summary.entry.sweep].append(summary)
    shown = [each for each in summaries if not {each.entry.key, each.entry.sweep} & out]
    # Running runs first, then the newest: users look for these.
    order = sorted(shown, key=lambda item: (item.status != "running", -_newest(item)))
    return [
        _row(summary, members[summary.entry.key]) | further_cells(summary, chosen, known[summary.entry.key])
        for summary in order
    ]


def _row(summary: Summary, members: list[Summary]) -> dict[str, Any]:
    """Return the cells of a run or of a sweep, whose return is that of its best setting over the seeds."""
    entry, latest = summary.entry, summary.latest
    config, moment, values = entry.config, latest.moment, latest.values
    rate = None
    if moment is not None and moment.seconds > 0:
        rate = values.get(RATE) if summary.status == "running" else moment.env_steps / moment.seconds
    settings = [] if evolves(entry, []) else settings_among(members)
    _, mean_return = best_of_sweep(settings, values.get(RETURN))
    return {
        "key": entry.key,
        "href": address_of(entry),
        "name": entry.name,
        "sweep": entry.sweep,
        "label": _label(entry) if entry.sweep else "",
        "kind": "sweep" if entry.is_sweep else "member" if entry.sweep else "run",
        "status": "unreadable" if summary.is_unreadable else summary.status if summary.is_read else _READING,
        "problem": printable(summary.problem) if summary.is_unreadable else "" if summary.is_read else _ABOUT_READING,
        "preset": printable(str(config.get("preset", "")), 60),
        "env": printable(str(config.get("env", "")), 80),
        "env_steps": moment.env_steps if moment else None,
        "frames": moment.frames if moment else None,
        "return": _rounded(mean_return),
        "best": None if latest.best is None else _rounded(latest.best.mean_return),
        "best_at": None if latest.best is None else latest.best.env_steps,
        "rate": _rounded(rate),
        "bottleneck": printable(latest.notes.get("bottleneck", "")) if summary.status == "running" else "",
        "age_s": moment.wall_time if moment else None,
    }


def _label(member: Entry) -> str:
    """Return a member's name below its sweep: its number and its own settings."""
    settings = f" · {setting_label(member.overrides)}" if member.overrides else ""
    return printable(f"member {member.path.name}{settings}")


def _rounded(value: float | None) -> float | None:
    return None if value is None or value != value or abs(value) == float("inf") else float(f"{value:.6g}")


def _where(library: Library, rows: list[dict[str, Any]]) -> str:
    if not rows:
        return f"no runs in {printable(str(library.root))} yet: laser train cartpole starts one"
    running = sum(row["status"] == "running" for row in rows)
    reading = sum(row["status"] == _READING for row in rows)
    still = f"; the numbers of {reading} older ones are still being read" if reading else ""
    cut = "; further ones are left out: open a directory below it" if len(library.entries()) >= listing.MOST else ""
    return f"{len(rows)} in {printable(str(library.root))}, {running} running{still}{cut}"
