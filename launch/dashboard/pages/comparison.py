"""The comparison below the table of runs: a picture for each metric and environment, and what the runs differ in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from launch.dashboard.address import Address, Control, controls_store, remember_controls
from launch.dashboard.checked import MOST_RUNS, one_of, texts, whole
from launch.dashboard.comparing import differences, show_setting
from launch.dashboard.facets import POINTS_OF_A_CURVE, View, draw_facet, facets_of, groups_of
from launch.dashboard.figures import Theme, colour_of, dash_of
from launch.dashboard.library import Library
from launch.dashboard.not_here import beyond, malformed, no_number, unknown
from launch.dashboard.pages.help import about_metric
from launch.dashboard.pages.parts import (
    MOST_SMOOTHING,
    axis_choice,
    clock,
    labelled,
    panel,
    section,
    smoothing_choice,
    table,
)
from launch.dashboard.panels import title_of
from launch.recording.metric_table import RETURN
from launch.records.listing import Entry, printable
from launch.records.seed_bands import BANDS
from launch.records.series import AXES

_UNCHOSEN = 8
_MOST_METRICS = 12
"""Metrics that are drawn; the page says so if more are chosen."""
_MOST_OFFERED = 1000
_CURVES = {
    "runs": "one for each run",
    "interval": "mean over seeds, 95 % interval",
    "iqm": "interquartile mean over seeds, quartiles",
    "deviation": "mean over seeds, standard deviation",
    "range": "mean over seeds, least to greatest",
}
_SHOW = {"log": "log scale", "one-axis": "environments on one axis", "references": "reference lines"}
_CONTROLS = (
    Control("metric", "metric", [RETURN]),
    Control("axis", "axis", "env_steps"),
    Control("smoothing", "smoothing", 0),
    Control("curves", "curves", "runs"),
    Control("show", "show", []),
)


def missing(address: Address) -> list[str]:
    """Return in words what the address asks of the comparison and it does not have."""
    return [
        *unknown(address, "axis", AXES),
        *unknown(address, "curves", tuple(_CURVES)),
        *unknown(address, "show", tuple(_SHOW)),
        *no_number(address, "smoothing", MOST_SMOOTHING),
        *malformed(address, "zoom", address.json("zoom")),
        *beyond(address, "metric", _MOST_OFFERED, "metrics"),
    ]


def layout(address: Address, hidden: list[str], *, has_frames: bool = True) -> Any:
    """Return the comparison as it stands in the address.

    Args:
        address: of the page.
        hidden: keys of the runs that are hidden.
        has_frames: whether frames differ from env steps in any run.
    """
    metrics = [name for name in address.texts("metric", (RETURN,)) if name][:_MOST_OFFERED]
    offered = [{"label": title_of(name), "value": name} for name in metrics or [RETURN]]
    show = [{"label": words, "value": name} for name, words in _SHOW.items()]
    curves = [{"label": words, "value": name} for name, words in _CURVES.items()]
    return html.Div(
        [
            html.Div(
                [
                    labelled("metrics", dcc.Dropdown(id="metric", options=offered, value=metrics, multi=True), "wide"),
                    axis_choice("axis", address.text("axis"), has_frames=has_frames),
                    smoothing_choice("smoothing", address.number("smoothing", 0)),
                    labelled(
                        "curves",
                        dcc.Dropdown(
                            id="curves",
                            options=curves,
                            value=one_of(address.text("curves"), tuple(_CURVES), "runs"),
                            clearable=False,
                        ),
                        "wide",
                    ),
                    labelled(
                        "show",
                        dcc.Checklist(
                            id="show",
                            options=show,
                            value=[name for name in _SHOW if name in address.texts("show")],
                            inline=True,
                        ),
                        "choice",
                    ),
                ],
                className="controls",
            ),
            html.Div(
                [
                    html.P(id="compared", className="quiet", role="status"),
                    html.A("all their points as CSV", id="all-points", href="#", className="button"),
                ],
                className="line",
            ),
            html.Div(id="legend", className="legend"),
            # An empty picture, so that the browser loads what draws while the table is made.
            html.Div(panel("", {"facet": ""}, height_px=380), id="comparison", className="facets linked"),
            section(
                "difference",
                html.Span(id="difference-title"),
                [html.Div(id="difference", className="scroll sideways", tabIndex=0)],
                address,
                opens=False,
            ),
            dcc.Store(id="hidden", data=hidden),
            dcc.Store(id="zoom", data=address.json("zoom")),
            dcc.Store(id="drawn"),
            dcc.Store(id="view-moment", data=address.moment),
            dcc.Store(id="comparison-seen"),
            controls_store("comparison", _CONTROLS, address),
            clock("comparison-clock", rests=True),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Add the callbacks of the comparison."""
    remember_controls(app, "comparison", _CONTROLS)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "marks"),
        Input("drawn", "data"),
        Input("hidden", "data"),
        State("view-moment", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "unzoom"), Input("axis", "value"), State("zoom", "data")
    )

    @app.callback(
        Output("metric", "options"),
        Input("table-view", "data"),
        State("metric", "options"),
        State("metric", "value"),
    )
    def offer(view: Any, options: Any, chosen: Any) -> Any:
        if not isinstance(view, dict):
            raise PreventUpdate
        entries, *_ = _compared(library, view)
        names = {name for entry in entries for name in library.summary(entry).latest.values}
        names |= {RETURN, *texts(chosen, _MOST_OFFERED)}
        offered = [{"label": title_of(name), "value": name} for name in sorted(names, key=_rank)]
        return no_update if offered == options else offered

    @app.callback(
        Output("comparison", "children"),
        Output("comparison", "data-axis"),
        Output("legend", "children"),
        Output("compared", "children"),
        Output("all-points", "href"),
        Output("difference-title", "children"),
        Output("difference", "children"),
        Output("drawn", "data"),
        Output("comparison-seen", "data"),
        Input("table-view", "data"),
        Input("hidden", "data"),
        Input("metric", "value"),
        Input("axis", "value"),
        Input("smoothing", "value"),
        Input("curves", "value"),
        Input("show", "value"),
        Input("theme", "data"),
        Input("comparison-clock", "data"),
        State("zoom", "data"),
        State("comparison-seen", "data"),
    )
    def compare(
        table_view: Any,
        hidden: Any,
        metrics: Any,
        axis: Any,
        smoothing: Any,
        curves: Any,
        show: Any,
        theme: Any,
        _: Any,
        zoom: Any,
        seen: Any,
    ) -> Any:
        if theme not in ("light", "dark") or not isinstance(table_view, dict):
            raise PreventUpdate
        entries, words, are_chosen = _compared(library, table_view)
        shown = texts(show, 10)
        asked_metrics = tuple(dict.fromkeys(texts(metrics, _MOST_OFFERED)))
        if len(asked_metrics) > _MOST_METRICS:
            words += f", the first {_MOST_METRICS} of {len(asked_metrics)} metrics"
        view = View(
            metrics=asked_metrics[:_MOST_METRICS],
            axis=one_of(axis, AXES, "env_steps"),
            half_width=whole(smoothing, 0, MOST_SMOOTHING, 0),
            by_setting=curves in BANDS,
            band=one_of(curves, BANDS, "interval"),
            one_axis="one-axis" in shown,
            log="log" in shown,
            references="references" in shown,
            zoom=zoom,
            theme=theme,
            is_preview=not are_chosen,
        )
        asked = set(texts(hidden, len(library.entries())))
        unseen = frozenset(entry.key for entry in entries if entry.key in asked or entry.sweep in asked)
        # The controls are part of the state: if the clock's request follows a click, the click's response is lost.
        # A zoom is not: the browser has drawn it already.
        controls = {name: value for name, value in vars(view).items() if name != "zoom"}
        state = str((library.picture_version(entries, POINTS_OF_A_CURVE), controls, sorted(unseen), words))
        if state == seen:
            raise PreventUpdate
        groups = groups_of(entries, view)
        colours = {
            entry.key: f"{colour_of(n, theme)} {dash_of(n)}" for n, runs in enumerate(groups.values()) for entry in runs
        }
        query = urlencode({"runs": ",".join(colours), "metric": view.metrics}, doseq=True)
        title, difference = _difference(entries)
        return (
            library.once(("comparison", state, str(zoom)), lambda: _panels(library, entries, groups, unseen, view)),
            view.axis,
            _legend(groups, unseen, view),
            words + (f", {len(unseen):,} of them hidden" if unseen else ""),
            f"/csv?{query}",
            title,
            difference,
            colours | dict.fromkeys((entry.sweep for entry in entries if entry.sweep), ""),
            state,
        )


def _panels(
    library: Library, entries: Sequence[Entry], groups: dict[str, list[Entry]], unseen: frozenset[str], view: View
) -> list[Any]:
    facets = facets_of(entries, view)
    return [
        panel(
            facet.title,
            {"facet": facet.key},
            figure=draw_facet(library, facet, groups, unseen, view),
            height_px=380 if len(facets) == 1 else 270,
            facet=facet.key,
            about=about_metric(facet.metric),
        )
        for facet in facets
    ]


def _legend(groups: dict[str, list[Entry]], unseen: frozenset[str], view: View) -> list[Any]:
    """Return the names of the curves beside their colours."""
    return [
        html.Span([_dot(place, view.theme), name])
        for place, (name, runs) in enumerate(groups.items())
        if any(run.key not in unseen for run in runs)
    ]


def _dot(place: int, theme: Theme) -> html.Span:
    """Return the dot of a curve in its colour; where the colours begin again, a piece of the dashed line."""
    marks: dict[str, Any] = {"data-dash": dash_of(place)}
    return html.Span(className="dot", style={"--curve": colour_of(place, theme)}, **marks)


def _difference(entries: Sequence[Entry]) -> tuple[str, Any]:
    """Return a title and a table of the settings in which the runs differ."""
    if len(entries) < 2:
        return "Differences in the settings: two runs or more have them", []
    found = differences(entries)
    number = f"{len(found)} setting{'' if len(found) == 1 else 's'}"
    head = ["run", *map(printable, found)]
    rows = [
        [entry.name, *(printable(show_setting(values[place], key), 60) for key, values in found.items())]
        for place, entry in enumerate(entries)
    ]
    return f"These {len(entries):,} runs differ in {number}", table(head, rows if found else [], "in none", "settings")


def _compared(library: Library, view: dict[str, Any]) -> tuple[list[Entry], str, bool]:
    """Return the runs to compare, which these are in words, and whether the user has chosen them.

    These are the rows that are ticked and pass the filter, with members in place of a sweep; if none is ticked, the
    newest few that pass it.
    """
    entries = library.entries()
    everything = [entry for entry in entries.values() if not entry.is_sweep]
    keys = set(texts(view.get("ticked"), len(entries)))
    # In the order of their names, so that another order of the table changes no colour.
    ticked = [entry for key, entry in entries.items() if key in keys]
    out = whole(view.get("out"), 0, 1 << 30, 0)
    left = f", {out:,} ticked but filtered out" if out else ""
    if ticked or out:
        runs = [run for entry in ticked for run in (library.members(entry) if entry.is_sweep else [entry])]
        chosen = list({run.key: run for run in runs}.values())
        drawn = chosen[:MOST_RUNS]
        cut = f", the first of {len(chosen):,} that are ticked" if len(drawn) < len(chosen) else ""
        return drawn, f"{len(drawn):,} of {len(everything):,} runs drawn{cut}{left}", True
    kept = view.get("kept")
    passing = set(texts(kept, len(entries))) if isinstance(kept, list) else set(entries)
    until = time.monotonic()  # the table has read what there is time for
    newest = sorted(
        (
            (moment.wall_time, entry)
            for entry in everything
            if entry.key in passing and (moment := library.summary(entry, until).latest.moment) is not None
        ),
        key=lambda item: -item[0],
    )
    drawn = [entry for _, entry in newest[:_UNCHOSEN]]
    return drawn, f"nothing ticked: the newest {len(drawn)} of {len(everything):,} runs are drawn", False


def _rank(name: str) -> tuple[int, str]:
    order = ("charts/", "evaluation/", "", "policy_lag/", "replay", "throughput/", "totals/")
    found = next((place for place, start in enumerate(order) if start and name.startswith(start)), 2)
    return found, name
