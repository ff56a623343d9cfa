"""The page of one run: its state in words and numbers, its panels, the ledger, and its config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from launch.dashboard.address import Address, Control, address_of, controls_store, remember_controls
from launch.dashboard.checked import one_of, texts, whole
from launch.dashboard.facets import zoom_in
from launch.dashboard.figures import Figure, Theme
from launch.dashboard.library import Library, Summary
from launch.dashboard.news import marked, news
from launch.dashboard.not_here import beyond, malformed, no_number, not_here, unknown
from launch.dashboard.pages import notes_section
from launch.dashboard.pages.parts import (
    MOST_SMOOTHING,
    axis_choice,
    clock,
    labelled,
    linked,
    panel,
    scale_choice,
    section,
    smoothing_choice,
    table,
    words_of,
)
from launch.dashboard.pages.run_panels import (
    MOST_PANELS,
    baseline_choice,
    baseline_of,
    baselines,
    own_scales,
    panels_of_run,
    sections,
)
from launch.dashboard.pages.run_tables import (
    config_parts,
    ledger_rows,
    log_end,
    lost_rows,
    nothing_lost,
    process_table,
    tiles_of_run,
)
from launch.dashboard.panels import SCALES, Scale, draw
from launch.dashboard.sweeps import read_schedule
from launch.formats import short
from launch.recording.metric_panels import Line, Panel, names_of
from launch.recording.metric_table import RETURN
from launch.records.listing import Entry, log_tail, printable
from launch.records.series import AXES, Axis

_POINTS = 250
_MOST_METRICS = 100


_CONTROLS = (
    Control("run-axis", "axis", "env_steps"),
    Control("run-smoothing", "smoothing", 0),
    Control("run-scale", "y", "all"),
    Control("any", "metric", []),
    Control("run-baseline", "baseline", None),
    Control("panel-search", "find", ""),
)


def layout(library: Library, address: Address) -> Any:
    """Return the page of the run in the address."""
    entry = library.find(address.name)
    if entry is None:
        return html.Div([html.H1("Run"), html.P("there is no such run here (any more); choose one under Runs")])
    sweep = library.find(entry.sweep)
    metrics = [name for name in address.texts("metric") if name][:_MOST_METRICS]
    summary = library.summary(entry)
    offered = sorted({*summary.latest.values, *metrics})
    # What went wrong comes first: the traceback is at the end of the log.
    has_failed = summary.status == "failed"
    log = section("log", "The end of the log", [html.Pre(id="log")], address, opens=has_failed)
    return html.Div(
        [
            html.Div(
                [
                    html.H1(entry.name),
                    html.Span(id="status"),
                    *([dcc.Link("its sweep", href=address_of(sweep), className="button")] if sweep else []),
                    dcc.Link("watch it", href=address_of(entry, "watch"), className="button"),
                    html.A("all data as CSV", href=f"/csv?runs={entry.key}", className="button"),
                ],
                className="line",
            ),
            *([html.P(_member_settings(entry), className="quiet", id="member-settings")] if sweep else []),
            not_here(_missing(library, entry, address)),
            html.Div(id="findings", role="status"),
            *([log] if has_failed else []),
            html.Div(id="tiles", className="tiles"),
            html.Div(
                [
                    axis_choice("run-axis", address.text("axis"), has_frames=_has_frames(summary)),
                    smoothing_choice("run-smoothing", address.number("smoothing", 0)),
                    scale_choice("run-scale", address.text("y")),
                    baseline_choice(library, entry, address),
                    labelled(
                        "panels",
                        dcc.Input(
                            id="panel-search",
                            type="search",
                            placeholder="find: any word",
                            value=address.text("find"),
                            debounce=False,
                            maxLength=100,
                        ),
                    ),
                ],
                className="controls sticky",
            ),
            html.P(id="panels-found", className="quiet", role="status"),
            linked([*sections(library, entry, address), _any_metric(offered, metrics, address)], address.text("axis")),
            notes_section.layout(library, entry, address),
            section("config", "Config", config_parts(entry), address),
            *([] if has_failed else [log]),
            dcc.Store(id="run-key", data=entry.key),
            dcc.Store(id="run-seen"),
            dcc.Store(id="run-drawn"),
            dcc.Store(id="run-title"),
            dcc.Store(id="zoom", data=address.json("zoom")),
            dcc.Store(id="run-scales", data={scale: address.texts(f"y-{scale}")[:MOST_PANELS] for scale in SCALES}),
            controls_store("run", _CONTROLS, address),
            clock("run-clock", rests=True),
            clock("run-words-clock"),
        ]
    )


def _has_frames(summary: Summary) -> bool:
    moment = summary.latest.moment
    return moment is None or moment.frames != moment.env_steps


def _missing(library: Library, entry: Entry, address: Address) -> list[str]:
    """Return in words what the address asks for and the page does not have."""
    panels = [each.key for each in panels_of_run(library, entry)]
    places = {"pin": "pinned panel", "large": "enlarged panel", "y-most": "panel", "y-log": "panel"}
    return [
        *unknown(address, "axis", AXES),
        *no_number(address, "smoothing", MOST_SMOOTHING),
        *unknown(address, "y", tuple(SCALES), "y axes"),
        *unknown(address, "baseline", baselines(library, entry)),
        *unknown(address, "metric", library.summary(entry).latest.values),
        *beyond(address, "metric", _MOST_METRICS, "metrics"),
        *(each for place, what in places.items() for each in unknown(address, place, panels, what)),
        *malformed(address, "zoom", address.json("zoom")),
    ]


def _any_metric(offered: list[str], metrics: list[str], address: Address) -> Any:
    options = [{"label": printable(name), "value": name} for name in offered]
    about = "choose metrics to show in a separate panel"
    choice = dcc.Dropdown(id="any", options=options, value=metrics, multi=True, placeholder=about)
    chosen = panel("Chosen metrics", {"panel": "any"}, facet="any")
    return section("any", "Any metric", [html.Section([choice, chosen], className="panel wide")], address)


def _member_settings(entry: Entry) -> str:
    """Return a member's own settings, those that PBT set last in place of the first ones."""
    schedule = read_schedule(entry.path / "schedule.json")
    newest = {key: short(value) for key, value in schedule[-1][1].items()} if schedule else {}
    settings = {str(key): printable(str(value), 60) for key, value in entry.overrides.items()} | newest
    settings |= {} if "seed" in settings else {"seed": str(entry.config.get("seed", ""))}
    return "of its sweep it has " + ", ".join(f"{printable(key)} {value}" for key, value in settings.items())


def register(app: Dash, library: Library) -> None:
    """Add the page's callbacks."""
    remember_controls(app, "run", _CONTROLS)
    notes_section.register(app, library)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "title"), Input("run-title", "data")
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "unzoom"), Input("run-axis", "value"), State("zoom", "data")
    )

    @app.callback(
        Output({"panel": ALL}, "figure"),
        Output("run-drawn", "data"),
        Input("run-axis", "value"),
        Input("run-smoothing", "value"),
        Input("run-scale", "value"),
        Input("any", "value"),
        Input("run-baseline", "value"),
        Input("run-scales", "data"),
        Input("theme", "data"),
        Input("run-clock", "data"),
        State("run-key", "data"),
        State("run-drawn", "data"),
        State({"panel": ALL}, "id"),
        State("zoom", "data"),
    )
    def draw_panels(
        axis: Any,
        smoothing: Any,
        scale: Any,
        wanted: Any,
        baseline: Any,
        scales: Any,
        theme: Any,
        tick: Any,
        key: Any,
        drawn: Any,
        ids: Any,
        zoom: Any,
    ) -> Any:
        entry = library.find(key)
        if entry is None or theme not in ("light", "dark"):
            raise PreventUpdate
        asked = [str(each.get("panel")) for each in ids if isinstance(each, dict)]
        names = tuple(texts(wanted, _MOST_METRICS))
        half_width = whole(smoothing, 0, MOST_SMOOTHING, 0)
        others = baseline_of(library, entry, baseline)
        own = own_scales(scales)
        settings = (one_of(axis, AXES, "env_steps"), half_width, one_of(scale, tuple(SCALES), "all"), names, theme)
        # The controls are part of the state: if the clock's request follows a click, the click's response is lost.
        runs = [entry, *others]
        state = f"{library.picture_version(runs, _POINTS)} {settings} {own}"
        due = asked
        before = drawn if isinstance(drawn, dict) else {}
        if ctx.triggered_id == "run-clock":
            # A panel outside the visible part is redrawn at the first tick after it becomes visible.
            visible = texts(tick.get("visible"), 100) if isinstance(tick, dict) else []
            due = [name for name in asked if name in visible and before.get(name) != state]
            if not due:
                raise PreventUpdate
        figures = library.once(
            ("panels", key, state, tuple(due), str(zoom)), lambda: _figures(library, runs, due, own, *settings, zoom)
        )
        return [figures.get(name, no_update) for name in asked], before | dict.fromkeys(due, state)

    @app.callback(
        Output("status", "children"),
        Output("status", "className"),
        Output("findings", "children"),
        Output("tiles", "children"),
        Output("ledger", "children"),
        Output("losses", "children"),
        Output("processes", "children"),
        Output("log", "children"),
        Output("run-title", "data"),
        Output("run-seen", "data"),
        Input("run-words-clock", "data"),
        State("run-key", "data"),
        State("run-seen", "data"),
    )
    def tell(_: Any, key: Any, seen: Any) -> Any:
        entry = library.find(key)
        if entry is None:
            raise PreventUpdate
        summary = library.summary(entry)
        # A run that hangs writes nothing new, so its age is part of the state.
        state = (library.version([entry]), summary.status, int((summary.age_s or 0.0) // 30))
        parts, known = news(*library.once(("words", key, state), lambda: _words(library, summary)), seen)
        return *parts, known


def _words(library: Library, summary: Summary) -> tuple[Sequence[Any], list[int]]:
    known = summary.latest.values
    mean_return = short(known.get(RETURN))
    return marked(
        summary.status,
        f"status {summary.status}",
        words_of(library.findings(summary)),
        tiles_of_run(summary),
        table(("", "unrolls"), ledger_rows(known), "nothing has been counted yet", "numbers"),
        table(("", "number"), lost_rows(known), nothing_lost(summary), "numbers"),
        table(*process_table(known), "not recorded by this run", "numbers"),
        log_end(log_tail(summary.entry.path)),
        summary.entry.name + (f" · return {mean_return}" if mean_return else ""),
    )


def _figures(
    library: Library,
    runs: list[Entry],
    due: list[str],
    scales: dict[str, Scale],
    axis: Axis,
    half_width: int,
    scale: Scale,
    names: tuple[str, ...],
    theme: Theme,
    zoom: Any,
) -> dict[str, Figure]:
    lines = tuple(Line(printable(name), name) for name in names)
    entry, *baselines = runs
    known = [
        *panels_of_run(library, entry),
        Panel("any", "", missing="choose metrics above to see them here", lines=lines),
    ]
    panels = {each.key: each for each in known if each.key in due}
    series = library.series(entry, names_of(list(panels.values())), _POINTS)
    under = [library.series(each, names_of(list(panels.values())), _POINTS) for each in baselines]
    figures = {
        key: draw(each, series, axis, theme, half_width, scales.get(key, scale), under) for key, each in panels.items()
    }
    for key, figure in figures.items():
        zoom_in(figure, zoom, key, axis)
    return figures
