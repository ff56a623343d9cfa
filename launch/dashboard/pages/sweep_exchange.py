"""The part of a sweep's page about its shared replay: who learns from whom."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from launch.dashboard import sweep_figures
from launch.dashboard.address import Address, Control
from launch.dashboard.checked import one_of
from launch.dashboard.exchange_figures import (
    ABOUT,
    ABOUT_COURSE,
    EXCHANGES,
    course_figure,
    exchange_figure,
)
from launch.dashboard.facets import zoom_alone, zoom_in
from launch.dashboard.figures import Figure
from launch.dashboard.library import Library
from launch.dashboard.member_groups import MOST_GROUPS, few_groups, member_label
from launch.dashboard.not_here import unknown
from launch.dashboard.pages.parts import labelled, later, linked, make_later, panel
from launch.records.listing import Entry
from launch.records.series import AXES

CONTROLS = (
    Control("exchange-of", "exchange", "share"),
    Control("exchange-reader", "reader", None),
)


def layout(address: Address, entry: Entry, members: list[Entry]) -> Any:
    """Return this part of the page; it is hidden where members have replays of their own."""
    names = [member.path.name for member in members]
    of = dcc.Dropdown(
        id="exchange-of",
        options=[{"label": words, "value": name} for name, words in EXCHANGES.items()],
        value=one_of(address.text("exchange"), tuple(EXCHANGES), "share"),
        clearable=False,
    )
    reader = dcc.Dropdown(
        id="exchange-reader",
        options=[{"label": member_label(member), "value": member.path.name} for member in members],
        value=one_of(address.text("reader"), names, names[0] if names else None),
        clearable=False,
    )
    tall = max(280, 90 + 26 * min(len(members), MOST_GROUPS))
    figures = html.Div(
        [
            panel("Who learns from whom", "exchange", tall, [ABOUT], facet="map"),
            linked(
                [panel("The same over time, for one member", "exchange-course", tall, [ABOUT_COURSE], facet="course")],
                address.text("axis"),
            ),
        ],
        className="halves",
    )
    return html.Div(
        [
            html.Div(
                [labelled("who learns from whom", of, "wide"), labelled("course of", reader, "wide")],
                className="controls",
            ),
            later("exchange", [figures, dcc.Store(id="exchange-drawn")], tall),
        ],
        id="exchange-section",
        hidden=not entry.sweep_options.get("share_replay") or len(members) < 2,
    )


def missing(address: Address, members: list[Entry]) -> list[str]:
    """Return in words what the address asks of this part of the page and it does not have."""
    return [
        *unknown(address, "exchange", tuple(EXCHANGES)),
        *unknown(address, "reader", [member.path.name for member in members]),
    ]


def register(app: Dash, library: Library) -> None:
    """Add the callbacks of this part."""
    make_later(app, "exchange")

    @app.callback(
        Output("exchange", "figure"),
        Output("exchange-course", "figure"),
        Output("exchange-drawn", "data"),
        Input("exchange-of", "value"),
        Input("exchange-reader", "value"),
        Input("sweep-axis", "value"),
        Input("theme", "data"),
        Input("sweep-clock", "data"),
        State("sweep-key", "data"),
        State("exchange-drawn", "data"),
        State("zoom", "data"),
        State("ranges", "data"),
    )
    def draw_exchange(
        what: Any, reader: Any, axis: Any, theme: Any, _: Any, key: Any, drawn: Any, zoom: Any, ranges: Any
    ) -> Any:
        entry = library.find(key)
        if entry is None or not entry.is_sweep or theme not in ("light", "dark"):
            raise PreventUpdate
        members = library.members(entry)
        what, axis = one_of(what, tuple(EXCHANGES), "share"), one_of(axis, AXES, "env_steps")
        whose = next((member for member in members if member.path.name == reader), members[0] if members else None)
        asked = (what, whose.key if whose else "", axis, theme)
        state = f"{library.picture_version(members, sweep_figures.NUM_POINTS)} {asked}"
        if state == drawn:
            raise PreventUpdate
        groups = few_groups(library, members)

        def figures() -> tuple[Figure, Figure]:
            course = course_figure(library, whose, groups, what, axis, theme)
            zoom_in(course, zoom, "course", axis, f"{what} {reader}")
            exchanged = exchange_figure(library, groups, what, theme)
            zoom_alone(exchanged, ranges, "map")
            return exchanged, course

        return *library.once(("exchange", key, state, str(zoom), str(ranges)), figures), state
