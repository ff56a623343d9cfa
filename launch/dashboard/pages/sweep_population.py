"""The part of a sweep's page about its population: who copied whom, and the settings schedule of a member."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from launch.dashboard import sweep_figures
from launch.dashboard.address import Address, Control
from launch.dashboard.checked import one_of
from launch.dashboard.facets import zoom_alone
from launch.dashboard.figures import Figure
from launch.dashboard.library import Library
from launch.dashboard.member_groups import MOST_GROUPS, member_label
from launch.dashboard.pages.parts import labelled, later, make_later, panel
from launch.dashboard.pages.sweep_tables import evolves
from launch.dashboard.sweeps import Decision, read_decisions
from launch.recording.metric_table import RETURN
from launch.records.listing import Entry

CONTROLS = (Control("traced", "member", None),)
_ABOUT_LINEAGE = (
    "arrow and diamond: copy; circle: changed settings; thick line: the ancestors; a population of more than "
    f"{MOST_GROUPS} has a lane for each setting that members began with, or for ranges of one of them, and the number "
    "of these members"
)
_ABOUT_SCHEDULE = "settings that led to this member, through all its ancestors"


def layout(library: Library, address: Address, entry: Entry, members: list[Entry], decisions: list[Decision]) -> Any:
    """Return this part of the page; it is hidden where members do not evolve."""
    lanes_px = max(260, 90 + 34 * len(sweep_figures.lanes_of(library, members)))
    options = [{"label": member_label(member), "value": member.path.name} for member in members]
    names = [member.path.name for member in members]
    traced = dcc.Dropdown(
        id="traced",
        options=options,
        value=one_of(address.text("member"), names, best_member(library, members)),
        clearable=False,
    )
    figures = html.Div(
        [
            panel("Lineage", "lineage", height_px=lanes_px, about=[_ABOUT_LINEAGE], facet="lineage"),
            panel("Schedule", "schedule", height_px=lanes_px, about=[_ABOUT_SCHEDULE], facet="schedule"),
        ],
        className="halves",
    )
    return html.Div(
        [
            html.Div([labelled("ancestors and schedule of", traced, "wide")], className="controls"),
            later("population", [figures, dcc.Store(id="lineage-drawn")], lanes_px),
        ],
        hidden=not evolves(entry, decisions),
    )


def best_member(library: Library, members: list[Entry]) -> str | None:
    """Return the name of the member with the highest return, the first one's before there is any."""
    returns = {member.path.name: library.summary(member).latest.values.get(RETURN) for member in members}
    finite = {name: value for name, value in returns.items() if value is not None and value == value}
    return max(finite, key=lambda name: finite[name], default=next(iter(returns), None))


def register(app: Dash, library: Library) -> None:
    """Add the callbacks of this part."""
    make_later(app, "population")

    @app.callback(
        Output("lineage", "figure"),
        Output("schedule", "figure"),
        Output("lineage-drawn", "data"),
        Input("traced", "value"),
        Input("theme", "data"),
        Input("sweep-clock", "data"),
        State("sweep-key", "data"),
        State("lineage-drawn", "data"),
        State("ranges", "data"),
    )
    def descend(traced: Any, theme: Any, _: Any, key: Any, drawn: Any, ranges: Any) -> Any:
        entry = library.find(key)
        if entry is None or not entry.is_sweep or theme not in ("light", "dark"):
            raise PreventUpdate
        members = library.members(entry)
        decisions = read_decisions(entry.path / "lineage.jsonl")
        whose = next((member for member in members if member.path.name == traced), members[0] if members else None)
        asked = (whose.key if whose else "", theme)
        state = f"{library.picture_version(members, sweep_figures.NUM_POINTS)} {len(decisions)} {asked}"
        if state == drawn:
            raise PreventUpdate

        def figures() -> tuple[Figure, ...]:
            descent = sweep_figures.descent_figure(library, members, decisions, whose, theme)
            schedule = sweep_figures.schedule_figure(library, whose, theme)
            zoom_alone(descent, ranges, "lineage")
            zoom_alone(schedule, ranges, "schedule", whose.path.name if whose else "")
            return descent, schedule

        return *library.once(("population", key, state, str(ranges)), figures), state
