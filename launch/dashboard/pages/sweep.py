"""The page of a sweep: its settings and members, the return over a setting, the best curve, a population's lineage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from launch.dashboard import sweep_figures
from launch.dashboard.address import Address, Control, controls_store, remember_controls
from launch.dashboard.checked import one_of, whole
from launch.dashboard.facets import View, zoom_in
from launch.dashboard.figures import Figure, as_text
from launch.dashboard.library import Library
from launch.dashboard.member_groups import best_of_sweep, groups_of_members, has_seeds
from launch.dashboard.news import marked, news
from launch.dashboard.not_here import malformed, no_number, not_here, unknown
from launch.dashboard.pages import notes_section, sweep_exchange, sweep_members, sweep_population, sweep_settings
from launch.dashboard.pages.help import help_button
from launch.dashboard.pages.parts import (
    MOST_SMOOTHING,
    axis_choice,
    clock,
    labelled,
    linked,
    panel,
    smoothing_choice,
    words_of,
)
from launch.dashboard.pages.sweep_members import columns, members_table, rows_of_members
from launch.dashboard.pages.sweep_tables import (
    evolves,
    keys_of,
    settings_of_sweep,
    settings_table,
    tiles_of_sweep,
)
from launch.dashboard.panels import METRIC_TITLES
from launch.dashboard.sweeps import read_decisions
from launch.evaluation.settings_compared import SettingReturns
from launch.formats import short
from launch.recording.metric_table import RETURN
from launch.records.listing import Entry
from launch.records.seed_bands import BANDS
from launch.records.series import AXES

_CURVES = {
    "runs": "one for each member",
    "interval": "settings: mean, 95 % interval",
    "iqm": "settings: interquartile mean, quartiles",
    "deviation": "settings: mean, standard deviation",
    "range": "settings: mean, least to greatest",
}
_CONTROLS = (
    Control("sweep-metric", "metric", RETURN),
    Control("sweep-axis", "axis", "env_steps"),
    Control("sweep-smoothing", "smoothing", 0),
    Control("sweep-curves-of", "curves", None),
    *sweep_population.CONTROLS,
    *sweep_settings.CONTROLS,
    *sweep_exchange.CONTROLS,
)


_ROW_PX = 26
"""Height of a row of the table of settings, or a little less."""
_TABLE_PX = 460
"""Height from which the table scrolls (assets/dashboard.css)."""
_NOTE_MEMBERS = "the tables above have the lines' colours; their rows bring a line to the front"
_ABOUT_MEMBERS = "the chosen metric of each member, or of each setting over its seeds, as chosen above"
_ABOUT_SETTINGS = (
    "the seeds of one setting are one row, the best first: the mean, over its seeds, of the returns of the last 20 "
    "episodes, and its 95 % interval from three seeds on"
)
_ABOUT_INCUMBENT = (
    "the highest mean over the seeds of a setting, each the mean of its last 20 episodes; a setting counts once all of "
    "its seeds have ended 20"
)
_BEST_MEMBER = "Best member at each moment", "the highest mean of a member's last 20 episodes, over all members' own"
_BEST_AGENT = (
    "Best agent, by bucket",
    "the median over an agent's games of the mean returns of a bucket, as the paper draws it; the "
    "pointer shows the fewest episodes behind such a mean",
)


def layout(library: Library, address: Address) -> Any:
    """Return the page of the sweep in the address."""
    entry = library.find(address.name)
    if entry is None or not entry.is_sweep:
        return html.Div([html.H1("Sweep"), html.P("there is no such sweep here (any more); choose one under Runs")])
    members = library.members(entry)
    keys = keys_of(entry, members)
    decisions = read_decisions(entry.path / "lineage.jsonl")
    settings = settings_of_sweep(library, entry, members, decisions)
    sharing = "sharing one replay" if entry.sweep_options.get("share_replay") else "each with its own replay"
    number_of = (
        f"{len(settings)} settings, {len(members)} members" if has_seeds(settings) else f"{len(members)} members"
    )
    evolving = evolves(entry, decisions)
    rows = rows_of_members(library, members, keys, decisions, settings)
    missing = [
        *_missing(address, members, settings),
        *sweep_members.missing(address, keys, rows, evolving=evolving),
        *sweep_settings.missing(address, keys),
        *sweep_exchange.missing(address, members),
    ]
    best, about_best = _BEST_MEMBER if sweep_figures.plays_one_game(members) else _BEST_AGENT
    return html.Div(
        [
            html.Div(
                [
                    html.H1(entry.name),
                    html.Span(id="sweep-status"),
                    html.P(f"{number_of}, {sharing}", className="quiet"),
                    html.A(
                        "returns as CSV",
                        href=f"/csv?runs={entry.key}&metric=charts/mean_return",
                        className="button",
                    ),
                ],
                className="line",
            ),
            not_here(missing),
            html.Div(id="sweep-findings", role="status"),
            html.Div(id="sweep-tiles", className="tiles"),
            html.Section(
                [
                    html.Div(
                        [html.H2("Settings over their seeds"), *help_button("settings", [_ABOUT_SETTINGS])],
                        className="title",
                    ),
                    html.Div(
                        id="sweep-settings-table",
                        className="scroll sideways",
                        tabIndex=0,
                        # What is below it stays where it is.
                        style={"minHeight": f"{min(_TABLE_PX, _ROW_PX * (1 + len(settings)))}px"},
                    ),
                ],
                className="panel wide",
                hidden=not has_seeds(settings),
            ),
            *members_table(address, keys, rows, evolving=evolving),
            _controls(library, address, members, settings),
            linked(
                [
                    panel("Members", "sweep-curves", 330, [_ABOUT_MEMBERS], note=_NOTE_MEMBERS, facet="members"),
                    # Where each setting has one member, the best setting is the best member.
                    html.Div(
                        panel("Best setting at each moment", "incumbent", 330, [_ABOUT_INCUMBENT], facet="setting"),
                        hidden=not has_seeds(settings),
                    ),
                    panel(best, "sweep-best", 330, [about_best], facet="best"),
                ],
                address.text("axis"),
                "panels",
            ),
            sweep_settings.layout(address, keys),
            sweep_exchange.layout(address, entry, members),
            sweep_population.layout(library, address, entry, members, decisions),
            notes_section.layout(library, entry, address),
            dcc.Store(id="sweep-key", data=entry.key),
            dcc.Store(id="sweep-seen"),
            dcc.Store(id="sweep-drawn"),
            dcc.Store(id="sweep-title"),
            dcc.Store(id="zoom", data=address.json("zoom")),
            dcc.Store(id="ranges", data=address.json("ranges")),
            controls_store("sweep", _with_defaults(library, members, settings, keys), address),
            clock("sweep-clock", rests=True),
            clock("sweep-words-clock"),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Add the page's callbacks."""
    remember_controls(app, "sweep", _CONTROLS)
    sweep_settings.register(app, library)
    sweep_exchange.register(app, library)
    sweep_population.register(app, library)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "title"), Input("sweep-title", "data")
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "unzoom"), Input("sweep-axis", "value"), State("zoom", "data")
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "openMembers"), Output("members-open", "data"), Input("members-start", "data")
    )

    @app.callback(
        Output("sweep-curves", "figure"),
        Output("sweep-best", "figure"),
        Output("sweep-drawn", "data"),
        Input("sweep-metric", "value"),
        Input("sweep-axis", "value"),
        Input("sweep-smoothing", "value"),
        Input("sweep-curves-of", "value"),
        Input("theme", "data"),
        Input("sweep-clock", "data"),
        State("sweep-key", "data"),
        State("sweep-drawn", "data"),
        State("zoom", "data"),
    )
    def draw(
        metric: Any, axis: Any, smoothing: Any, curves: Any, theme: Any, _: Any, key: Any, drawn: Any, zoom: Any
    ) -> Any:
        entry = library.find(key)
        if entry is None or not entry.is_sweep or theme not in ("light", "dark"):
            raise PreventUpdate
        members = library.members(entry)
        decisions = read_decisions(entry.path / "lineage.jsonl")
        view = View(
            metrics=(one_of(metric, tuple(METRIC_TITLES), RETURN),),
            axis=one_of(axis, AXES, "env_steps"),
            half_width=whole(smoothing, 0, MOST_SMOOTHING, 0),
            by_setting=curves in BANDS,
            band=one_of(curves, BANDS, "interval"),
            one_axis=True,
            theme=theme,
        )
        # The controls are part of the state: if the clock's request follows a click, the click's response is lost.
        state = f"{library.picture_version(members, sweep_figures.NUM_POINTS)} {len(decisions)} {view}"
        if state == drawn:
            raise PreventUpdate
        settings = settings_of_sweep(library, entry, members, decisions)
        groups = groups_of_members(members, settings if view.by_setting else [])

        def figures() -> tuple[Figure, ...]:
            curves = sweep_figures.members_figure(library, members, groups, view)
            best = sweep_figures.best_figure(library, members, view.axis, theme, settings)
            zoom_in(curves, zoom, "members", view.axis, view.metrics[0])
            zoom_in(best, zoom, "best", view.axis)
            return curves, best

        return *library.once(("sweep", key, state, str(zoom)), figures), state

    @app.callback(
        Output("members", "rowData"),
        Output("members", "columnDefs"),
        Output("sweep-status", "children"),
        Output("sweep-status", "className"),
        Output("sweep-findings", "children"),
        Output("sweep-tiles", "children"),
        Output("sweep-settings-table", "children"),
        Output("sweep-title", "data"),
        Output("sweep-seen", "data"),
        Input("sweep-words-clock", "data"),
        State("sweep-key", "data"),
        State("sweep-seen", "data"),
    )
    def tell(_: Any, key: Any, seen: Any) -> Any:
        entry = library.find(key)
        if entry is None or not entry.is_sweep:
            raise PreventUpdate
        members = library.members(entry)
        summary = library.summary(entry)
        decisions = read_decisions(entry.path / "lineage.jsonl")
        state = (library.version(members), summary.status, len(decisions))

        def words() -> tuple[Sequence[Any], list[int]]:
            keys = keys_of(entry, members)
            settings = settings_of_sweep(library, entry, members, decisions)
            rows = rows_of_members(library, members, keys, decisions, settings)
            highest = max((row["return"] for row in rows if row["return"] is not None), default=None)
            what, best = best_of_sweep(settings, highest)
            return marked(
                rows,
                columns(keys, rows, evolving=evolves(entry, decisions)),
                summary.status,
                f"status {summary.status}",
                words_of(library.findings(summary)),
                tiles_of_sweep(summary, rows, settings, evolving=evolves(entry, decisions)),
                settings_table(settings, members) if has_seeds(settings) else [],
                entry.name + ("" if best is None else f" · {what} {short(best)}"),
            )

        parts, known = news(*library.once(("sweep-words", key, state), words), seen)
        return *parts, known


def _with_defaults(
    library: Library, members: list[Entry], settings: list[SettingReturns], keys: list[str]
) -> list[Control]:
    """Return the controls with the defaults of this sweep."""
    own = {
        "setting": sweep_settings.default_keys(keys)[0],
        "second": sweep_settings.default_keys(keys)[1],
        "curves": "interval" if has_seeds(settings) else "runs",
        "member": sweep_population.best_member(library, members),
        "reader": members[0].path.name if members else None,
    }
    return [Control(each.id, each.name, own.get(each.name, each.default)) for each in _CONTROLS]


def _missing(address: Address, members: list[Entry], settings: list[SettingReturns]) -> list[str]:
    """Return in words what the address asks of the curves and of the lineage and they do not have."""
    lines = [as_text(name) for groups in ([], settings) for name in groups_of_members(members, groups)]
    return [
        *unknown(address, "metric", tuple(METRIC_TITLES)),
        *unknown(address, "axis", AXES),
        *no_number(address, "smoothing", MOST_SMOOTHING),
        *unknown(address, "curves", tuple(_CURVES) if has_seeds(settings) else ("runs",)),
        *unknown(address, "line", lines),
        *unknown(address, "member", [member.path.name for member in members]),
        *malformed(address, "zoom", address.json("zoom")),
        *malformed(address, "ranges", address.json("ranges")),
    ]


def _controls(library: Library, address: Address, members: list[Entry], settings: list[SettingReturns]) -> Any:
    def choice(title: str, name: str, options: dict[str, str], asked: str, default: Any) -> Any:
        value = one_of(address.text(asked), tuple(options), default)
        offered = [{"label": words, "value": key} for key, words in options.items()]
        return labelled(title, dcc.Dropdown(id=name, options=offered, value=value, clearable=False), "wide")

    moments = [library.summary(member).latest.moment for member in members]
    has_frames = any(one is None or one.frames != one.env_steps for one in moments)
    seeds = has_seeds(settings)
    curves = _CURVES if seeds else {"runs": _CURVES["runs"]}
    return html.Div(
        [
            choice("metric", "sweep-metric", METRIC_TITLES, "metric", RETURN),
            axis_choice("sweep-axis", address.text("axis"), has_frames=has_frames),
            smoothing_choice("sweep-smoothing", address.number("smoothing", 0)),
            choice("curves", "sweep-curves-of", curves, "curves", "interval" if seeds else "runs"),
        ],
        className="controls",
    )
