"""The page of a sweep: its members, the return over a setting, the best curve, and a population's lineage."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import dash_ag_grid
from dash import Dash, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from launch.dashboard import sweep_figures
from launch.dashboard.checked import one_of, query_value, whole
from launch.dashboard.comparing import flat
from launch.dashboard.library import Library, Summary
from launch.dashboard.news import marked, news
from launch.dashboard.pages.parts import (
    axis_choice,
    clock,
    labelled,
    number,
    panel,
    smoothing_choice,
    tile,
    words_of,
)
from launch.dashboard.sweeps import Decision, read_decisions
from launch.recording.metric_table import EVALUATION, RATE, RETURN
from launch.records.listing import Entry, member_number, printable
from launch.records.series import AXES


def layout(library: Library, search: str) -> Any:
    """Return the page of the sweep in the address."""
    entry = library.find(query_value(search, "key"))
    if entry is None or not entry.is_sweep:
        return html.Div([html.H1("Sweep"), html.P("there is no such sweep here (any more); choose one under Runs")])
    members = library.members(entry)
    keys = _keys(entry, members)
    decisions = read_decisions(entry.path / "lineage.jsonl")
    sharing = _option(entry, "share_replay")
    how = "sharing one replay" if sharing else "each with its own replay"
    lanes_px = max(260, 90 + 34 * len(members))
    evolving = bool(decisions) or bool(_option(entry, "pbt"))
    return html.Div(
        [
            html.Div(
                [
                    html.H1(entry.name),
                    html.Span(id="sweep-status"),
                    html.P(f"{len(members)} members, {how}", className="quiet"),
                    html.A(
                        "returns as CSV",
                        href=f"/csv?runs={','.join(member.key for member in members[:100])}&metric=charts/mean_return",
                        className="button",
                    ),
                ],
                className="line",
            ),
            html.Div(id="sweep-findings", role="status"),
            html.Div(id="sweep-tiles", className="tiles"),
            dash_ag_grid.AgGrid(
                id="members",
                columnDefs=_columns(keys),
                rowData=_rows(library, members, keys, decisions),
                getRowId="params.data.key",
                defaultColDef={"sortable": True, "resizable": True, "filter": True, "suppressHeaderFilterButton": True},
                dashGridOptions={
                    "animateRows": False,
                    "rowHeight": 32,
                    "headerHeight": 36,
                },
                style={"height": f"{min(330, 44 + 32 * max(2, len(members)))}px"},
            ),
            html.Div(
                [
                    labelled(
                        "metric",
                        dcc.Dropdown(
                            id="sweep-metric",
                            options=[{"label": text, "value": name} for name, text in sweep_figures.METRICS.items()],
                            value=RETURN,
                            clearable=False,
                        ),
                        "wide",
                    ),
                    axis_choice("sweep-axis"),
                    smoothing_choice("sweep-smoothing"),
                    labelled(
                        "setting",
                        dcc.Dropdown(
                            id="setting",
                            options=[{"label": printable(key), "value": key} for key in keys],
                            value=keys[0] if keys else None,
                            clearable=False,
                        ),
                        "wide",
                    ),
                ],
                className="controls",
            ),
            html.Div(
                [
                    panel("Members", "sweep-curves", height_px=330),
                    panel("Best of all members, by bucket", "sweep-best", height_px=330),
                    panel("Setting against return", "sweep-settings", height_px=330),
                ],
                className="panels",
            ),
            html.Div(
                [
                    html.Div(
                        [
                            labelled(
                                "ancestors and schedule of",
                                dcc.Dropdown(
                                    id="traced",
                                    options=[
                                        {"label": sweep_figures.member_label(member), "value": member.key}
                                        for member in members
                                    ],
                                    value=max(members, key=lambda one: _return(library, one)).key if members else None,
                                    clearable=False,
                                ),
                                "wide",
                            )
                        ],
                        className="controls",
                    ),
                    html.Div(
                        [
                            panel(
                                "Lineage",
                                "lineage",
                                height_px=lanes_px,
                                about="arrow and diamond: copy; circle: changed settings; thick line: the ancestors",
                            ),
                            panel(
                                "Schedule",
                                "schedule",
                                height_px=lanes_px,
                                about="settings that led to this member, through all its ancestors",
                            ),
                        ],
                        className="halves",
                    ),
                ],
                hidden=not evolving,
            ),
            dcc.Store(id="sweep-key", data=entry.key),
            dcc.Store(id="sweep-seen"),
            dcc.Store(id="sweep-drawn"),
            clock("sweep-clock", rests=True),
            clock("sweep-words-clock"),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Add the page's callbacks."""

    @app.callback(
        Output("sweep-curves", "figure"),
        Output("sweep-best", "figure"),
        Output("sweep-settings", "figure"),
        Output("lineage", "figure"),
        Output("schedule", "figure"),
        Output("sweep-drawn", "data"),
        Input("sweep-metric", "value"),
        Input("sweep-axis", "value"),
        Input("sweep-smoothing", "value"),
        Input("setting", "value"),
        Input("traced", "value"),
        Input("theme", "data"),
        Input("sweep-clock", "data"),
        State("sweep-key", "data"),
        State("sweep-drawn", "data"),
    )
    def draw(
        metric: Any,
        axis: Any,
        smoothing: Any,
        setting: Any,
        traced: Any,
        theme: Any,
        tick: Any,
        key: Any,
        drawn: Any,
    ) -> Any:
        entry = library.find(key)
        if entry is None or not entry.is_sweep or theme not in ("light", "dark"):
            raise PreventUpdate
        members = library.members(entry)
        keys = _keys(entry, members)
        decisions = read_decisions(entry.path / "lineage.jsonl")
        name = one_of(metric, tuple(sweep_figures.METRICS), RETURN)
        chosen = one_of(axis, AXES, "env_steps")
        its_key = one_of(setting, keys, keys[0]) if keys else ""
        whose = next((member for member in members if member.key == traced), members[0] if members else None)
        half_width = whole(smoothing, 0, 50, 0)
        asked = (name, chosen, its_key, whose.key if whose else "", half_width, theme)
        # The controls are part of the state: if the clock's request follows a click, the click's response is lost.
        state = f"{library.picture_version(members, sweep_figures.NUM_POINTS)} {len(decisions)} {asked}"
        if state == drawn:
            raise PreventUpdate
        figures = library.once(
            ("sweep", key, state),
            lambda: (
                sweep_figures.members_figure(library, members, name, chosen, half_width, theme),
                sweep_figures.best_figure(library, members, theme),
                sweep_figures.settings_figure(_rows(library, members, keys, decisions), its_key, theme),
                sweep_figures.descent_figure(library, members, decisions, whose, theme),
                sweep_figures.schedule_figure(library, whose, theme),
            ),
        )
        return *figures, state

    @app.callback(
        Output("members", "rowData"),
        Output("sweep-status", "children"),
        Output("sweep-status", "className"),
        Output("sweep-findings", "children"),
        Output("sweep-tiles", "children"),
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
            rows = _rows(library, members, _keys(entry, members), decisions)
            findings = words_of(library.findings(summary))
            return marked(rows, summary.status, f"status {summary.status}", findings, _tiles(summary, rows))

        parts, known = news(*library.once(("sweep-words", key, state), words), seen)
        return *parts, known


def _option(entry: Entry, name: str) -> Any:
    sweep = entry.record.get("sweep")
    options = sweep.get("options") if isinstance(sweep, dict) else None
    return options.get(name) if isinstance(options, dict) else None


def _keys(entry: Entry, members: list[Entry]) -> list[str]:
    """Return the keys in which members differ: the grid's keys, and the settings that a population changes."""
    sweep = entry.record.get("sweep")
    grid = sweep.get("grid") if isinstance(sweep, dict) else None
    pbt = sweep.get("pbt") if isinstance(sweep, dict) else None
    keys = [str(key) for key in grid] if isinstance(grid, dict) else []
    perturbed = pbt.get("perturb") if isinstance(pbt, dict) and _option(entry, "pbt") else None
    keys += [str(key) for key in perturbed] if isinstance(perturbed, list) else []
    return list(dict.fromkeys([*keys, *(["seed"] if members else [])]))


def _return(library: Library, member: Entry) -> float:
    mean_return = _finite(library.summary(member).latest.values.get(RETURN))
    return -math.inf if mean_return is None else mean_return


def _columns(keys: list[str]) -> list[dict[str, Any]]:
    shown = {"valueFormatter": {"function": "shown(params)"}, "type": "rightAligned"}
    return [
        {"headerName": "member", "field": "name", "cellRenderer": "RunLink", "width": 120, "pinned": "left"},
        {"headerName": "status", "field": "status", "cellRenderer": "Status", "width": 112},
        *[
            {
                "headerName": printable(key.rpartition(".")[2]),
                "field": f"s{place}",
                "width": 158,
                "headerTooltip": printable(key),
            }
            for place, key in enumerate(keys)
        ],
        {"headerName": "return", "field": "return", "width": 100, "sort": "desc", **shown},
        {"headerName": "evaluation", "field": "evaluation", "width": 110, **shown},
        {"headerName": "env steps", "field": "env_steps", "width": 110, **shown},
        {"headerName": "steps/s", "field": "rate", "width": 95, **shown},
        {"headerName": "copied", "field": "copied", "width": 90, **shown},
    ]


def _rows(library: Library, members: list[Entry], keys: list[str], decisions: list[Decision]) -> list[dict[str, Any]]:
    rows = []
    for member in members:
        summary = library.summary(member)
        values, moment, index = summary.latest.values, summary.latest.moment, member_number(member)
        settings = flat(member.config)
        newest = [decision.settings for decision in decisions if decision.member == index]
        settings |= newest[-1] if newest else {}
        rows.append(
            {
                "key": member.key,
                "href": f"/run?key={member.key}",
                "name": sweep_figures.member_label(member),
                "status": summary.status,
                "return": _finite(values.get(RETURN)),
                "evaluation": _finite(values.get(EVALUATION)),
                "env_steps": moment.env_steps if moment else None,
                "rate": _finite(values.get(RATE)),
                "copied": sum(d.member == index and d.copied is not None for d in decisions),
                **{f"s{place}": _setting(settings.get(key)) for place, key in enumerate(keys)},
                "settings": {key: _setting(settings.get(key)) for key in keys},
            }
        )
    return rows


def _setting(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value if isinstance(value, int) and not isinstance(value, bool) else printable(json.dumps(value).strip('"'))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _tiles(summary: Summary, rows: list[dict[str, Any]]) -> list[Any]:
    moment = summary.latest.moment
    ranked = sorted((row for row in rows if row["return"] is not None), key=lambda row: -row["return"])
    if moment is None:
        return []
    best = ranked[0] if ranked else None
    spread = f"worst {number(ranked[-1]['return'])}" if len(ranked) > 1 else ""
    return [
        tile("best return", number(best["return"], 2) if best else "none yet", best["name"] if best else ""),
        tile("members with a return", f"{len(ranked)} of {len(rows)}", spread),
        tile("env steps, all members", f"{moment.env_steps:,}", ""),
        tile("env steps / s", number(summary.latest.values.get(RATE), 0), "newest, added up"),
        tile("copied", str(sum(row["copied"] for row in rows)), "times"),
    ]
