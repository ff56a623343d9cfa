"""The figures of a population: copies between its members, and the settings schedule that led to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launch.dashboard.figures import (
    Curve,
    Figure,
    Theme,
    as_text,
    at_pointer,
    base_layout,
    colour_of,
    encoded,
    greatest,
    ink,
)
from launch.formats import axis_formats


def steps_figure(curves: Sequence[Curve], x_title: str, theme: Theme = "light") -> Figure:
    """Return piecewise constant curves, each on its own y axis since their sizes differ, one above the other.

    Args:
        curves: from top to bottom.
        x_title: of the x axis.
        theme: of colours.
    """
    layout = base_layout(theme, x_title, "")
    layout["showlegend"] = False
    first_axis = layout.pop("yaxis")
    height = 1.0 / max(1, len(curves))
    traces = []
    for place, curve in enumerate(curves):
        end = "" if place == 0 else str(place + 1)
        bottom = 1.0 - (place + 1) * height
        layout[f"yaxis{end}"] = first_axis | axis_formats(greatest(curve.y))
        layout[f"yaxis{end}"] |= {
            "domain": [bottom + 0.12 * height, bottom + 0.95 * height],
            "title": {"text": as_text(curve.name), "standoff": 6},
            "rangemode": "tozero",
            "nticks": 5,
        }
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": as_text(curve.name),
                "x": encoded(curve.x, "f8"),
                "y": encoded(curve.y),
                "yaxis": f"y{end}",
                "line": {"color": colour_of(place, theme), "width": 2, "shape": "hv"},
            }
            | at_pointer(curve.y)
        )
    furthest = max((greatest(curve.x) for curve in curves), default=0.0)
    layout["xaxis"] |= axis_formats(furthest) | {"hoverformat": ",.0f"}
    layout["xaxis"] |= {"anchor": "y" if len(curves) < 2 else f"y{len(curves)}"}
    return {"data": traces, "layout": layout}


def lineage_figure(
    lanes: Mapping[int, str],
    ends: Mapping[int, float],
    copies: Sequence[tuple[float, int, int, str]],
    changes: Sequence[tuple[float, int, str]],
    path: Sequence[tuple[float, float, int]] = (),
    theme: Theme = "light",
) -> Figure:
    """Return a population's lineage: a lane for every member, an arrow for every copy.

    Members without a lane are left out.

    Args:
        lanes: label by member.
        ends: env steps of each member so far.
        copies: (env steps, copied member, copying member, text).
        changes: (env steps, member, text) of changed settings without a copy.
        path: (from, to, member) pieces of the ancestry to mark.
        theme: of colours.
    """
    rows = {member: place for place, member in enumerate(sorted(lanes))}
    pale = {"color": ink(theme), "width": 1}
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [0, ends.get(member, 0)],
            "y": [row, row],
            "line": pale,
            "opacity": 0.5,
            "hoverinfo": "skip",
        }
        for member, row in rows.items()
    ]
    for begin, end, member in path:
        if member not in rows:
            continue
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [begin, end],
                "y": [rows[member], rows[member]],
                "line": {"color": colour_of(4, theme), "width": 7},
                "opacity": 0.75,
                "hoverinfo": "skip",
            }
        )
    changed = [(at, rows[who], text) for at, who, text in changes if who in rows]
    copied = [(at, rows[to], text) for at, _, to, text in copies if to in rows]
    traces.append(_events(changed, colour_of(0, theme), "circle"))
    traces.append(_events(copied, colour_of(1, theme), "diamond"))
    layout = base_layout(theme, "env steps", "")
    layout["hovermode"] = "closest"
    layout["showlegend"] = False
    layout["annotations"] = [
        {
            "x": at,
            "y": rows[to],
            "ax": at,
            "ay": rows[model],
            "xref": "x",
            "yref": "y",
            "axref": "x",
            "ayref": "y",
            "text": "",
            "showarrow": True,
            "arrowhead": 2,
            "arrowwidth": 1.5,
            "arrowcolor": colour_of(1, theme),
            "standoff": 6,
        }
        for at, model, to, _ in copies
        if model in rows and to in rows and model != to
    ]
    layout["xaxis"] |= axis_formats(greatest(list(ends.values())))
    layout["yaxis"] |= {
        "tickvals": list(rows.values()),
        "ticktext": [as_text(lanes[member]) for member in rows],
        "autorange": "reversed",
        "showgrid": False,
        "automargin": True,
    }
    return {"data": traces, "layout": layout}


def _events(events: Sequence[tuple[float, int, str]], colour: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [at for at, _, _ in events],
        "y": [row for _, row, _ in events],
        "text": [as_text(text).replace("\n", "<br>") for _, _, text in events],
        "marker": {"color": colour, "size": 9, "symbol": symbol},
        "hovertemplate": "%{text}<extra></extra>",
    }
