"""The part of a sweep's page about its settings: which of them matter, and the return over one, two and all of them."""

from __future__ import annotations

import math
import time
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from laser.packages import find_missing
from launch.dashboard import settings_figures
from launch.dashboard.address import Address, Control
from launch.dashboard.checked import one_of
from launch.dashboard.facets import zoom_alone, zoom_in
from launch.dashboard.figures import Figure, message_figure
from launch.dashboard.importance import Importance, importances, too_few
from launch.dashboard.incumbent import incumbent_figure
from launch.dashboard.library import Library
from launch.dashboard.member_groups import has_seeds
from launch.dashboard.not_here import malformed, unknown
from launch.dashboard.outcomes import Outcome, outcomes_of
from launch.dashboard.pages.parts import labelled, later, make_later, panel
from launch.dashboard.pages.sweep_members import rows_of_members
from launch.dashboard.pages.sweep_tables import keys_of, settings_of_sweep
from launch.dashboard.settings_figures import BY_RETURN
from launch.dashboard.sweeps import read_decisions
from launch.records.listing import Entry, printable
from launch.records.series import AXES

CONTROLS = (
    Control("setting", "setting", None),
    Control("second", "second", None),
    Control("colour", "colour", BY_RETURN),
)
_NUM_POINTS = 400
_ANEW_S = 60.0
"""Seconds between two computations of importance while members train: each takes about a second."""
_EVOLVING = "the members change their settings while they train, so no setting has a return of its own"
_ABOUT_IMPORTANCE = (
    "by how much the squared error of predicted returns grows if a setting is shuffled, as a share of the returns' "
    "variance, with its 95 % interval"
)
_ABOUT_ONE = "a point for each member: its setting, and the mean return of its last 20 episodes"
_ABOUT_TWO = "a cell for each pair of values: the mean, over the members that have them, of the returns of the last 20"
_ABOUT_ALL = (
    "a line for each setting; drag along an axis to keep the lines that cross it there, a double click shows all"
)
_KEYS_ALL = "left and right choose a setting, up and down keep a quarter of its values, 0 shows all."
_IMPORTANCE = "importance"


def layout(address: Address, keys: list[str]) -> Any:
    """Return the part of the page.

    Args:
        address: of the page.
        keys: in which members differ.
    """
    named = {key: printable(key) for key in keys}
    first, second = default_keys(keys)
    others = {key: words for key, words in named.items() if key != "seed"}
    waiting = message_figure("the importance of the settings is being computed")
    for axis in ("paper_bgcolor", "plot_bgcolor"):
        waiting["layout"][axis] = "rgba(0,0,0,0)"
    waiting["layout"]["font"].pop("color")
    colours = {BY_RETURN: "the return"} | named
    figures = [
        html.P(id="importance-words", className="quiet", role="status"),
        html.Div(
            [
                panel("Importance of the settings", _IMPORTANCE, 330, [_ABOUT_IMPORTANCE], waiting, facet="importance"),
                panel("Setting against return", "sweep-settings", 330, [_ABOUT_ONE], facet="one"),
                panel("Two settings, mean return", "two-settings", 330, [_ABOUT_TWO], facet="two"),
            ],
            className="panels",
        ),
        html.Div(panel("All settings", "all-settings", 360, note=_ABOUT_ALL, keys=_KEYS_ALL), id="parallel"),
        dcc.Store(id="settings-drawn"),
        dcc.Store(id="importance-drawn"),
    ]
    return html.Div(
        [
            html.H2("Which settings matter", className="heading"),
            html.Div(
                [
                    _choice("setting", "setting", named, address.text("setting"), first),
                    html.Div(
                        _choice("second setting", "second", others, address.text("second"), second),
                        hidden=second is None,
                    ),
                    _choice("colour", "colour", colours, address.text("colour"), BY_RETURN),
                ],
                className="controls",
            ),
            later("settings", figures, 330 + 360),
            dcc.Store(id="incumbent-drawn"),
        ],
        id="settings-section",
    )


def missing(address: Address, keys: list[str]) -> list[str]:
    """Return in words the settings that the address asks for and the sweep does not have."""
    others = [key for key in keys if key != "seed"]
    return [
        *unknown(address, "setting", keys),
        *unknown(address, "second", others, "second setting"),
        *unknown(address, "colour", [BY_RETURN, *keys]),
        *malformed(address, "brush", address.json("brush")),
    ]


def default_keys(keys: list[str]) -> tuple[str | None, str | None]:
    """Return the keys that are shown unless the user chooses others: the first two that are not the seed."""
    own = [key for key in keys if key != "seed"] or keys
    return (own[0] if own else None), (own[1] if len(own) > 1 else None)


def register(app: Dash, library: Library) -> None:
    """Add the callbacks of this part."""
    make_later(app, "settings")

    @app.callback(
        Output("sweep-settings", "figure"),
        Output("two-settings", "figure"),
        Output("all-settings", "figure"),
        Output("settings-drawn", "data"),
        Input("setting", "value"),
        Input("second", "value"),
        Input("colour", "value"),
        Input("theme", "data"),
        Input("sweep-clock", "data"),
        State("sweep-key", "data"),
        State("settings-drawn", "data"),
        State("ranges", "data"),
    )
    def draw(setting: Any, second: Any, colour: Any, theme: Any, _: Any, key: Any, drawn: Any, ranges: Any) -> Any:
        entry = _sweep(library, key, theme)
        members = library.members(entry)
        keys = keys_of(entry, members)
        first, other = (one_of(each, keys, "") for each in (setting, second))
        of = one_of(colour, keys, BY_RETURN)
        state = f"{library.picture_version(members, _NUM_POINTS)} {(first, other, of, theme)}"
        if state == drawn:
            raise PreventUpdate

        def figures() -> tuple[Figure, ...]:
            rows, outcomes = _outcomes(library, entry, members)
            one = settings_figures.one_setting_figure(rows, first, of, theme)
            two = settings_figures.two_settings_figure(outcomes, first, other, theme)
            zoom_alone(one, ranges, "one", first)
            zoom_alone(two, ranges, "two", f"{first} {other}")
            return one, two, settings_figures.all_settings_figure(outcomes, of, theme)

        return *library.once(("settings", key, state, str(ranges)), figures), state

    @app.callback(
        Output("incumbent", "figure"),
        Output("incumbent-drawn", "data"),
        Input("sweep-axis", "value"),
        Input("theme", "data"),
        Input("sweep-clock", "data"),
        State("sweep-key", "data"),
        State("incumbent-drawn", "data"),
        State("zoom", "data"),
    )
    def follow(axis: Any, theme: Any, _: Any, key: Any, drawn: Any, zoom: Any) -> Any:
        entry = _sweep(library, key, theme)
        members = library.members(entry)
        of_time = one_of(axis, AXES, "env_steps")
        state = f"{library.picture_version(members, _NUM_POINTS)} {(of_time, theme)}"
        if state == drawn:
            raise PreventUpdate

        settings = settings_of_sweep(library, entry, members, read_decisions(entry.path / "lineage.jsonl"))
        if not has_seeds(settings):  # it would be the curve of the best member again, and the page has one of them
            return no_update, state

        def figure() -> Figure:
            found = incumbent_figure(library, members, settings, of_time, theme)
            zoom_in(found, zoom, "setting", of_time)
            return found

        # It reads the curves of all members, and the other pictures need not wait for it.
        return library.aside(("incumbent", key, state, str(zoom)), figure), state

    @app.callback(
        Output(_IMPORTANCE, "figure"),
        Output("importance-words", "children"),
        Output("importance-drawn", "data"),
        Input("theme", "data"),
        Input("sweep-clock", "data"),
        Input("incumbent-drawn", "data"),
        State("sweep-key", "data"),
        State("importance-drawn", "data"),
        State("ranges", "data"),
    )
    def weigh(theme: Any, _: Any, others_drawn: Any, key: Any, drawn: Any, ranges: Any) -> Any:
        entry = _sweep(library, key, theme)
        if not others_drawn:  # it takes about a second, for which the curves should not wait
            raise PreventUpdate
        members = library.members(entry)
        running = any(library.summary(member).status == "running" for member in members)
        state = f"{time.time() // _ANEW_S}" if running else library.version(members)
        if [state, theme] == drawn:
            raise PreventUpdate
        table, words = library.aside((_IMPORTANCE, key, state), lambda: _weighed(library, entry, members))
        if not table:
            return message_figure(words, theme), "", [state, theme]
        figure = settings_figures.importance_figure(table, theme)
        zoom_alone(figure, ranges, _IMPORTANCE)
        return figure, words, [state, theme]


def _weighed(library: Library, entry: Entry, members: list[Entry]) -> tuple[list[Importance], str]:
    """Return the importance of settings and what it shows in words; without any, why there is none."""
    _, outcomes = _outcomes(library, entry, members)
    known = [one for one in outcomes if math.isfinite(one.value)]
    why = _why_not(library, entry, members, known)
    if why:
        return [], why
    table, explained = importances(known)
    return table, settings_figures.importance_words(table, explained)


def _why_not(library: Library, entry: Entry, members: list[Entry], known: list[Outcome]) -> str:
    if not settings_of_sweep(library, entry, members, read_decisions(entry.path / "lineage.jsonl")):
        return _EVOLVING
    if len({str(one.settings.get("env")) for one in known}) > 1:
        return "the settings play different games, whose returns cannot be compared"
    missing = next(find_missing(_IMPORTANCE, ["scikit-learn"]), None)
    return too_few(known) or ("" if missing is None else f"{missing.wrong}: {missing.remedy}")


def _sweep(library: Library, key: Any, theme: Any) -> Entry:
    entry = library.find(key)
    if entry is None or not entry.is_sweep or theme not in ("light", "dark"):
        raise PreventUpdate
    return entry


def _outcomes(library: Library, entry: Entry, members: list[Entry]) -> tuple[list[dict[str, Any]], list[Outcome]]:
    decisions = read_decisions(entry.path / "lineage.jsonl")
    rows = rows_of_members(library, members, keys_of(entry, members), decisions)
    return rows, outcomes_of(settings_of_sweep(library, entry, members, decisions), rows)


def _choice(title: str, name: str, options: dict[str, str], asked: str, default: Any) -> Any:
    value = one_of(asked, tuple(options), default)
    offered = [{"label": words, "value": key} for key, words in options.items()]
    return labelled(title, dcc.Dropdown(id=name, options=offered, value=value, clearable=False), "wide")
