"""The page of all runs: a table with sorting and filters, and a comparison of the chosen runs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import dash_ag_grid
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from launch.dashboard.checked import keys_of_rows, one_of, whole
from launch.dashboard.comparing import seed_curves, single_curves
from launch.dashboard.figures import Theme, line_figure, message_figure
from launch.dashboard.library import Library, Summary
from launch.dashboard.pages.parts import axis_choice, clock, labelled, panel, smoothing_choice
from launch.dashboard.panels import AXIS_TITLES
from launch.recording.metric_table import RATE, RETURN
from launch.records.listing import Entry, printable
from launch.records.series import AXES, Axis, Series

DEFAULT_METRIC = RETURN
_UNCHOSEN = 8
_POINTS = 800


def _column(name: str, field: str, width: int, **more: Any) -> dict[str, Any]:
    return {"headerName": name, "field": field, "width": width, **more}


_TEXT = {"filter": "agTextColumnFilter"}
_NUMBER = {
    "filter": "agNumberColumnFilter",
    "filterParams": {"defaultOption": "greaterThanOrEqual"},
    "headerTooltip": "type a number below to keep the runs with at least this value",
    "type": "rightAligned",
    "valueFormatter": {"function": "shown(params)"},
}
_AGE = _NUMBER | {
    "filterParams": {"defaultOption": "lessThanOrEqual"},
    "filterValueGetter": {"function": "hours(params)"},
    "headerTooltip": "since the newest numbers; type a number N below to keep the runs of the last N hours",
    "valueFormatter": {"function": "ago(params)"},
}
_COLUMNS = [
    _column("run", "name", 224, cellRenderer="RunLink", pinned="left", **_TEXT),
    _column("status", "status", 100, cellRenderer="Status", **_TEXT),
    _column("kind", "kind", 78, **_TEXT),
    _column("preset", "preset", 92, **_TEXT),
    _column("environment", "env", 114, tooltipField="env", **_TEXT),
    _column("env steps", "env_steps", 88, **_NUMBER),
    _column("frames", "frames", 86, **_NUMBER),
    _column("return", "return", 76, **_NUMBER),
    _column("steps/s", "rate", 74, **_NUMBER),
    _column("bottleneck", "bottleneck", 150, flex=1, minWidth=150, tooltipField="bottleneck", **_TEXT),
    _column("age", "age_s", 66, **_AGE),
]


def layout(library: Library) -> Any:
    """Return the page."""
    rows = _rows(library)
    return html.Div(
        [
            html.Div(
                [
                    html.H1("Runs"),
                    dcc.Input(
                        id="search", type="search", placeholder="filter: any word", debounce=False, maxLength=200
                    ),
                    html.P(_where(library, rows), id="where", className="quiet"),
                ],
                className="line",
            ),
            dash_ag_grid.AgGrid(
                id="table",
                columnDefs=_COLUMNS,
                rowData=rows,
                getRowId="params.data.key",
                defaultColDef={
                    "sortable": True,
                    "resizable": True,
                    "floatingFilter": True,
                    "suppressMovable": True,
                    "suppressFloatingFilterButton": True,
                    "suppressHeaderFilterButton": True,
                },
                dashGridOptions={
                    "rowSelection": {"mode": "multiRow", "enableClickSelection": True},
                    "selectionColumnDef": {"pinned": "left", "width": 44},
                    "animateRows": False,
                    "rowHeight": 34,
                    "headerHeight": 36,
                    "tooltipShowDelay": 300,
                },
                style={"height": f"{min(420, 108 + 34 * max(3, len(rows)))}px"},
            ),
            html.Div(
                [
                    labelled(
                        "metric",
                        dcc.Dropdown(id="metric", options=[DEFAULT_METRIC], value=DEFAULT_METRIC, clearable=False),
                        "wide",
                    ),
                    axis_choice("axis"),
                    smoothing_choice("smoothing"),
                    labelled(
                        "show",
                        dcc.Checklist(
                            id="show",
                            options=[
                                {"label": "mean and band over seeds", "value": "seeds"},
                                {"label": "log scale", "value": "log"},
                            ],
                            value=[],
                            inline=True,
                        ),
                        "choice",
                    ),
                ],
                className="controls",
            ),
            html.Div(
                [
                    html.P(id="compared", className="quiet"),
                    html.A("all their points as CSV", id="all-points", href="#", className="button"),
                ],
                className="line",
            ),
            panel("Comparison", "comparison", height_px=380),
            clock("runs-clock"),
            clock("comparison-clock", rests=True),
            dcc.Store(id="runs-seen"),
            dcc.Store(id="comparison-seen"),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Add the page's callbacks."""

    @app.callback(
        Output("table", "rowData"),
        Output("where", "children"),
        Output("runs-seen", "data"),
        Input("runs-clock", "data"),
        State("runs-seen", "data"),
        prevent_initial_call=True,
    )
    def fill(_: Any, seen: Any) -> Any:
        rows = _rows(library)
        # Ages do not count as changes: the page computes them from the time of the newest numbers.
        state = str(hash(str(rows)))
        if state == seen:
            raise PreventUpdate
        return rows, _where(library, rows), state

    # The search runs in the browser: a response that renders the table again may swallow a click on it.
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "search"),
        Input("search", "value"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("metric", "options"),
        Input("table", "selectedRows"),
        State("metric", "options"),
        State("metric", "value"),
    )
    def offer(selected: Any, options: Any, metric: Any) -> Any:
        entries = _compared(library, selected)
        names = {name for entry in entries for name in library.summary(entry).latest.values} | {DEFAULT_METRIC}
        offered = [{"label": printable(name), "value": name} for name in sorted(names, key=_rank)]
        return no_update if offered == options else offered

    @app.callback(
        Output("comparison", "figure"),
        Output("compared", "children"),
        Output("all-points", "href"),
        Output("comparison-seen", "data"),
        Input("table", "selectedRows"),
        Input("metric", "value"),
        Input("axis", "value"),
        Input("smoothing", "value"),
        Input("show", "value"),
        Input("theme", "data"),
        Input("comparison-clock", "data"),
        State("comparison-seen", "data"),
    )
    def compare(selected: Any, metric: Any, axis: Any, smoothing: Any, show: Any, theme: Any, _: Any, seen: Any) -> Any:
        if theme not in ("light", "dark"):
            raise PreventUpdate
        entries = _compared(library, selected)
        chosen = one_of(axis, AXES, "env_steps")
        half_width = whole(smoothing, 0, 50, 0)
        extras = tuple(word for word in ("seeds", "log") if isinstance(show, list) and word in show)
        name = metric if isinstance(metric, str) else DEFAULT_METRIC
        # The controls are part of the state: if the clock's request follows a click, the click's response is lost.
        state = str((library.picture_version(entries, _POINTS), name, chosen, half_width, extras, theme))
        if state == seen:
            raise PreventUpdate
        figure = library.once(
            ("comparison", state),
            lambda: _figure(library, entries, name, chosen, half_width, extras, theme),
        )
        runs = "1 run" if len(entries) == 1 else f"{len(entries)} runs"
        note = f"{runs} chosen" if keys_of_rows(selected) else "nothing chosen: the newest runs are shown"
        query = urlencode({"runs": ",".join(entry.key for entry in entries), "metric": name})
        return figure, note, f"/csv?{query}", state


def _figure(
    library: Library,
    entries: list[Entry],
    name: str,
    axis: Axis,
    half_width: int,
    extras: tuple[str, ...],
    theme: Theme,
) -> Any:
    series: dict[str, Series] = {}
    for entry in entries:
        found = library.series(entry, [name], _POINTS)
        if name in found:
            series[entry.key] = found[name]
    if not series:
        why = "no run was found" if not entries else f"none of these runs has recorded {name}"
        return message_figure(why, theme)
    make = seed_curves if "seeds" in extras else single_curves
    curves = make(entries, series, axis, half_width)
    figure = line_figure(curves, AXIS_TITLES[axis], printable(name), theme, log_y="log" in extras)
    figure["layout"]["showlegend"] = True
    figure["layout"]["legend"] = {"orientation": "v", "x": 1.01, "y": 0.92, "font": {"size": 11}}
    figure["layout"]["uirevision"] = f"{name} {axis}"
    return figure


def _compared(library: Library, selected: Any) -> list[Entry]:
    """Return the runs to compare: the chosen ones, with members in place of a sweep, else the newest few."""
    entries = library.entries()
    chosen = [entries[key] for key in keys_of_rows(selected) if key in entries]
    if chosen:
        runs = [run for entry in chosen for run in (library.members(entry) if entry.is_sweep else [entry])]
        return list({run.key: run for run in runs}.values())
    known = [library.summary(entry) for entry in entries.values() if not entry.is_sweep]
    newest = sorted((item for item in known if item.latest.moment), key=_newest, reverse=True)
    return [item.entry for item in newest[:_UNCHOSEN]]


def _newest(summary: Summary) -> float:
    return summary.latest.moment.wall_time if summary.latest.moment else 0.0


def _rows(library: Library) -> list[dict[str, Any]]:
    summaries = [library.summary(entry) for entry in library.entries().values()]
    # Running runs first, then the newest: users look for these.
    return [_row(summary) for summary in sorted(summaries, key=lambda item: (item.status != "running", -_newest(item)))]


def _row(summary: Summary) -> dict[str, Any]:
    entry, latest = summary.entry, summary.latest
    config, moment, values = entry.config, latest.moment, latest.values
    rate = None
    if moment is not None and moment.seconds > 0:
        rate = values.get(RATE) if summary.status == "running" else moment.env_steps / moment.seconds
    page = "sweep" if entry.is_sweep else "run"
    return {
        "key": entry.key,
        "href": f"/{page}?key={entry.key}",
        "name": entry.name,
        "kind": "sweep" if entry.is_sweep else "member" if entry.sweep else "run",
        "status": "unreadable" if entry.problem else summary.status,
        "preset": printable(str(config.get("preset", "")), 60),
        "env": printable(str(config.get("env", "")), 80),
        "env_steps": moment.env_steps if moment else None,
        "frames": moment.frames if moment else None,
        "return": _rounded(values.get(RETURN)),
        "rate": _rounded(rate),
        "bottleneck": printable(latest.notes.get("bottleneck", "")) if summary.status == "running" else "",
        "age_s": moment.wall_time if moment else None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or value != value or abs(value) == float("inf") else float(f"{value:.6g}")


def _where(library: Library, rows: list[dict[str, Any]]) -> str:
    if not rows:
        return f"no runs in {printable(str(library.root))} yet: laser train cartpole starts one"
    running = sum(row["status"] == "running" for row in rows)
    return f"{len(rows)} in {printable(str(library.root))}, {running} running"


def _rank(name: str) -> tuple[int, str]:
    order = ("charts/", "evaluation/", "", "policy_lag/", "replay", "throughput/", "totals/")
    found = next((place for place, start in enumerate(order) if start and name.startswith(start)), 2)
    return found, name
