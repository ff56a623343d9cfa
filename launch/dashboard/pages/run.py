"""The page of one run: its state in words and numbers, its panels, the ledger, and its config."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from launch.dashboard.checked import one_of, query_value, texts, whole
from launch.dashboard.comparing import flat
from launch.dashboard.figures import Figure, Theme
from launch.dashboard.library import Library, Summary
from launch.dashboard.news import marked, news
from launch.dashboard.pages.parts import (
    ago,
    axis_choice,
    clock,
    number,
    panel,
    size,
    smoothing_choice,
    table,
    tile,
    words_of,
)
from launch.dashboard.panels import draw, panels_of
from launch.recording.metric_panels import BOXES, Line, Panel, names_of
from launch.recording.metric_table import RATE, RETURN, known_key, label_of, rows_of, values_by_field
from launch.recording.progress import duration
from launch.records.listing import Entry, log_tail, printable
from launch.records.series import AXES, Axis

_POINTS = 250
_BOTTLENECK = known_key("bottleneck")


def layout(library: Library, search: str) -> Any:
    """Return the page of the run in the address."""
    entry = library.find(query_value(search, "key"))
    if entry is None:
        return html.Div([html.H1("Run"), html.P("there is no such run here (any more); choose one under Runs")])
    panels = _panels(library, entry)
    sweep = library.find(entry.sweep)
    return html.Div(
        [
            html.Div(
                [
                    html.H1(entry.name),
                    html.Span(id="status"),
                    *([dcc.Link("its sweep", href=f"/sweep?key={sweep.key}", className="button")] if sweep else []),
                    dcc.Link("watch it", href=f"/watch?key={entry.key}", className="button"),
                    html.A("all data as CSV", href=f"/csv?runs={entry.key}", className="button"),
                ],
                className="line",
            ),
            html.Div(id="findings", role="status"),
            html.Div(id="tiles", className="tiles"),
            html.Div([axis_choice("run-axis"), smoothing_choice("run-smoothing")], className="controls"),
            html.Div([panel(each.title, {"panel": each.key}) for each in panels], className="panels"),
            html.Div(
                [
                    html.Section([html.H3(BOXES["ledger"]), html.Div(id="ledger")], className="panel"),
                    html.Section([html.H3(BOXES["lost"]), html.Div(id="losses")], className="panel"),
                    html.Section([html.H3("Processes"), html.Div(id="processes")], className="panel"),
                ],
                className="panels",
            ),
            html.Section(
                [
                    html.Header([html.H3("Any metric")]),
                    dcc.Dropdown(
                        id="any",
                        options=[
                            {"label": printable(name), "value": name}
                            for name in sorted(library.summary(entry).latest.values)
                        ],
                        multi=True,
                        placeholder="choose metrics to show in a separate panel",
                    ),
                    panel("Chosen metrics", {"panel": "any"}),
                ],
                className="panel wide",
            ),
            _config(entry),
            html.Details([html.Summary("Log"), html.Pre(id="log")], open=False),
            dcc.Store(id="run-key", data=entry.key),
            dcc.Store(id="run-seen"),
            dcc.Store(id="run-drawn"),
            clock("run-clock", rests=True),
            clock("run-words-clock"),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Add the page's callbacks."""

    @app.callback(
        Output({"panel": ALL}, "figure"),
        Output("run-drawn", "data"),
        Input("run-axis", "value"),
        Input("run-smoothing", "value"),
        Input("any", "value"),
        Input("theme", "data"),
        Input("run-clock", "data"),
        State("run-key", "data"),
        State("run-drawn", "data"),
        State({"panel": ALL}, "id"),
    )
    def draw_panels(
        axis: Any, smoothing: Any, wanted: Any, theme: Any, tick: Any, key: Any, drawn: Any, ids: Any
    ) -> Any:
        entry = library.find(key)
        if entry is None or theme not in ("light", "dark"):
            raise PreventUpdate
        asked = [str(each.get("panel")) for each in ids if isinstance(each, dict)]
        names = tuple(texts(wanted, 20))
        settings = (one_of(axis, AXES, "env_steps"), whole(smoothing, 0, 50, 0), names, theme)
        # The controls are part of the state: if the clock's request follows a click, the click's response is lost.
        state = f"{library.picture_version([entry], _POINTS)} {settings}"
        due = asked
        before = drawn if isinstance(drawn, dict) else {}
        if ctx.triggered_id == "run-clock":
            # A panel outside the visible part is redrawn at the first tick after it becomes visible.
            visible = texts(tick.get("visible"), 100) if isinstance(tick, dict) else []
            due = [name for name in asked if name in visible and before.get(name) != state]
            if not due:
                raise PreventUpdate
        figures = library.once(("panels", key, state, tuple(due)), lambda: _figures(library, entry, due, *settings))
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
    return marked(
        summary.status,
        f"status {summary.status}",
        words_of(library.findings(summary)),
        _tiles(summary),
        table(("", "unrolls"), _ledger(known), "nothing has been counted yet", "numbers"),
        table(("", "number"), _lost(known), "nothing was rejected, dropped or lost", "numbers"),
        table(("process", "CPU", "memory"), _processes(known), "not recorded by this run", "numbers"),
        log_tail(summary.entry.path),
    )


def _panels(library: Library, entry: Entry) -> list[Panel]:
    return panels_of(library.summary(entry).latest.values)


def _figures(
    library: Library, entry: Entry, due: list[str], axis: Axis, half_width: int, names: tuple[str, ...], theme: Theme
) -> dict[str, Figure]:
    lines = tuple(Line(printable(name), name) for name in names)
    known = [*_panels(library, entry), Panel("any", "", missing="choose metrics above to see them here", lines=lines)]
    panels = {each.key: each for each in known if each.key in due}
    series = library.series(entry, names_of(list(panels.values())), _POINTS)
    return {key: draw(each, series, axis, theme, half_width) for key, each in panels.items()}


def _tiles(summary: Summary) -> list[Any]:
    moment, values = summary.latest.moment, summary.latest.values
    if moment is None:
        return []
    steps = summary.entry.config.get("steps")
    rate = values.get(RATE, 0.0)
    if summary.status != "running":
        rate = moment.env_steps / moment.seconds if moment.seconds > 0 else 0.0
    left = ""
    share = ""
    if isinstance(steps, int) and steps > 0:
        share = f"{min(100.0, 100 * moment.env_steps / steps):.0f} % of {steps:,}"
        if summary.status == "running" and rate > 0 and steps > moment.env_steps:
            left = f"{duration((steps - moment.env_steps) / rate)} left"
    bottleneck = summary.latest.notes.get(_BOTTLENECK, "")
    name, _, rest = bottleneck.partition(" (")
    return [
        tile("env steps", f"{moment.env_steps:,}", share),
        tile("frames", f"{moment.frames:,}", ""),
        tile("learner steps", f"{moment.learner_steps:,}", ""),
        tile("return", number(values.get(RETURN), 2) or "none yet", "last 20 episodes"),
        tile("env steps / s", f"{rate:,.0f}", left),
        tile("training time", duration(moment.seconds), f"newest numbers {ago(summary.age_s)}"),
        tile("bottleneck", printable(name, 40) or "unknown", printable(rest.rstrip(")"), 60)),
    ]


def _ledger(values: dict[str, float]) -> list[tuple[str, str]]:
    """Return the rows of the ledger; for runs without a ledger, their substitute counters."""
    rows = list(rows_of("ledger"))
    found = [(key, row) for row in rows if not row.is_substitute for key in row.keys(values)]
    if found:
        return [(_after_slash(key, " / "), f"{values[key]:,.0f}") for key, _ in found]
    instead = [(key, row) for row in rows if row.is_substitute for key in row.keys(values)]
    return [(label_of(key, row), f"{values[key]:,.0f}") for key, row in instead]


def _lost(values: dict[str, float]) -> list[tuple[str, str]]:
    found = sorted(key for row in rows_of("lost") for key in row.keys(values) if values[key])
    return [(_after_slash(key, ": "), f"{values[key]:,.0f}") for key in found]


def _after_slash(key: str, between: str) -> str:
    return printable(key.split("/", 1)[1].replace("_", " ").replace("/", between))


def _processes(values: dict[str, float]) -> list[tuple[str, str, str]]:
    cpu, memory = (values_by_field(f"process/{{process}}/{what}", values) for what in ("cpu_percent", "memory_bytes"))
    rows = []
    for name in sorted(cpu.keys() | memory.keys()):
        used = cpu.get(name, math.nan)
        rows.append((printable(name), "" if math.isnan(used) else f"{used:.0f} %", size(memory.get(name))))
    return rows


def _config(entry: Entry) -> Any:
    record = entry.record
    changes = record.get("changes")
    rows = []
    if isinstance(changes, dict):
        for key, change in changes.items():
            if isinstance(change, dict):
                rows.append([printable(str(part)) for part in (key, change.get("preset", ""), change.get("run", ""))])
    preset = printable(str(entry.config.get("preset", "") or "none"))
    same = "nothing: it is the unchanged preset" if isinstance(changes, dict) else "not recorded by this run"
    facts = [("command", record.get("command")), ("begun", record.get("created")), ("commit", record.get("commit"))]
    versions = record.get("versions")
    if isinstance(versions, dict):
        facts.append(("versions", ", ".join(f"{name} {value}" for name, value in versions.items())))
    # One text in place of a table: more cells make a page update more slowly.
    resolved = "\n".join(
        f"{printable(key):44} {printable(str(value), 400)}" for key, value in flat(entry.config).items()
    )
    return html.Details(
        [
            html.Summary("Config"),
            html.Div(
                [
                    html.Section(
                        [
                            html.H3(f"Differs from preset {preset} in"),
                            table(("key", "preset", "this run"), rows, same),
                            html.H3("Origin"),
                            table(("", ""), [(name, printable(str(value), 2000)) for name, value in facts if value]),
                        ],
                        className="panel",
                    ),
                    html.Section([html.H3("Settings"), html.Pre(resolved or "no config")], className="panel scroll"),
                ],
                className="halves",
            ),
        ],
        open=True,
    )
