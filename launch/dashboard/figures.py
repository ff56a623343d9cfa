"""Figures in Plotly's format: plain dicts of traces and layout, made from arrays without an import of Plotly.

Colours are Okabe and Ito's, which colour-blind readers can distinguish; from the ninth on, lines are dashed too.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Theme = Literal["light", "dark"]
Figure = dict[str, Any]

_COLOURS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#b5568c", "#c98500", "#3a9fd8", "#5a5a5a", "#8c6d1f"),
    "dark": ("#56b4e9", "#f0873a", "#2fc79b", "#e39ac5", "#f0c04a", "#8fd0f5", "#c8c8c8", "#e5d86a"),
}
_INK = {"light": "#24292f", "dark": "#d7dce2"}
_GRID = {"light": "#e6e8eb", "dark": "#30363d"}
_PAPER = {"light": "#ffffff", "dark": "#161b22"}
_DASHES = ("solid", "dash", "dot", "dashdot")
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Curve:
    """A line, with a band around it if `low` and `high` are given.

    Args:
        name: in the legend; always shown as plain text.
        x: [N].
        y: [N]; NaN leaves a gap.
        low: [N] lower edge of the band.
        high: [N] upper edge.
        colour: number of the colour; by default the curve's index in the figure.
        is_faint: a thin, pale line behind the others.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    colour: int | None = None
    is_faint: bool = False


def colour_of(number: int, theme: Theme = "light") -> str:
    """Return a colour of the palette, as #rrggbb."""
    colours = _COLOURS[theme]
    return colours[number % len(colours)]


def line_figure(
    curves: Sequence[Curve],
    x_title: str,
    y_title: str = "",
    theme: Theme = "light",
    *,
    log_y: bool = False,
    y_range: tuple[float, float] | None = None,
    from_zero: bool = False,
    stacked: bool = False,
) -> Figure:
    """Return lines over an axis.

    Args:
        curves: in the order of the legend.
        x_title: of the x axis, with its unit.
        y_title: of the y axis, with its unit.
        theme: of colours.
        log_y: logarithmic y.
        y_range: of y; by default fitted to the data.
        from_zero: y begins at 0.
        stacked: draw areas on top of each other, for shares.
    """
    traces: list[dict[str, Any]] = []
    for place, curve in enumerate(curves):
        number = place if curve.colour is None else curve.colour
        colour = colour_of(number, theme)
        if curve.low is not None and curve.high is not None:
            traces += _band(curve, colour)
        trace = {
            "type": "scatter",
            "mode": "lines" if len(curve.x) > 1 else "markers",
            "name": as_text(curve.name),
            "x": encoded(curve.x, "f8"),
            "y": encoded(curve.y),
            "line": {
                "color": colour,
                "width": 1 if curve.is_faint else 2,
                "dash": _DASHES[number // len(_COLOURS[theme]) % len(_DASHES)],
            },
            "opacity": 0.35 if curve.is_faint else 1.0,
            "legendgroup": str(place),
        }
        if stacked:
            trace |= {"stackgroup": "all", "line": {"color": colour, "width": 0.5}, "fillcolor": _rgba(colour, 0.75)}
        traces.append(trace)
    layout = base_layout(theme, x_title, y_title)
    layout["showlegend"] = len(curves) > 1
    if log_y:
        layout["yaxis"]["type"] = "log"
    if from_zero and not log_y:
        highest = max((float(np.nanmax(curve.y, initial=0.0)) for curve in curves), default=0.0)
        tallest = max((float(np.nanmax(c.high, initial=0.0)) for c in curves if c.high is not None), default=0.0)
        y_range = (0.0, 1.08 * max(highest, tallest) or 1.0)
    if y_range is not None:
        layout["yaxis"] |= {"range": list(y_range), "autorange": False}
    return {"data": traces, "layout": layout}


def scatter_figure(
    x: Sequence[float | str],
    y: Sequence[float],
    labels: Sequence[str],
    x_title: str,
    y_title: str,
    theme: Theme = "light",
) -> Figure:
    """Return points with labels on hovering; an x axis over decades is logarithmic, words are categories.

    Args:
        x: [N] numbers, or words.
        y: [N].
        labels: [N].
        x_title: of the x axis.
        y_title: of the y axis.
        theme: of colours.
    """
    trace = {
        "type": "scatter",
        "mode": "markers+text" if len(labels) <= 40 else "markers",
        "x": [as_text(value) if isinstance(value, str) else value for value in x],
        "y": [float(value) if np.isfinite(value) else None for value in y],
        "text": [as_text(label) for label in labels],
        "textposition": "top center",
        "textfont": {"size": 11},
        "marker": {"size": 11, "color": colour_of(0, theme), "line": {"width": 1, "color": _PAPER[theme]}},
        "hovertemplate": "%{text}: %{y:.4g}<br>%{x}<extra></extra>",
        "cliponaxis": False,
    }
    layout = base_layout(theme, x_title, y_title)
    layout["hovermode"] = "closest"
    layout["showlegend"] = False
    numbers = [value for value in x if isinstance(value, (int, float))]
    if len(numbers) < len(x):
        layout["xaxis"]["type"] = "category"
    elif numbers and min(numbers) > 0 and max(numbers) / min(numbers) >= 30:
        layout["xaxis"]["type"] = "log"
        layout["xaxis"]["dtick"] = 1
    return {"data": [trace], "layout": layout}


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
        layout[f"yaxis{end}"] = first_axis | {
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
        )
    layout["xaxis"] |= {"anchor": "y" if len(curves) < 2 else f"y{len(curves)}"}
    return {"data": traces, "layout": layout}


def bar_figure(
    names: Sequence[str], values: Sequence[float], theme: Theme = "light", *, chosen: Sequence[int] = ()
) -> Figure:
    """Return horizontal bars for probabilities, the chosen ones in another colour."""
    colours = [colour_of(1 if place in chosen else 0, theme) for place in range(len(names))]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [float(value) for value in values],
        "y": [as_text(name) for name in names],
        "text": [f"{100 * value:.0f} %" for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": colours},
        "hoverinfo": "skip",
    }
    layout = base_layout(theme, "", "")
    layout["showlegend"] = False
    layout["margin"]["l"] = 70
    layout["margin"]["r"] = 44
    layout["xaxis"] |= {"range": [0, 1], "tickformat": ".0%", "autorange": False}
    layout["yaxis"] |= {"autorange": "reversed", "type": "category", "automargin": True}
    return {"data": [trace], "layout": layout}


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
    pale = {"color": _INK[theme], "width": 1}
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
        if model in rows and to in rows
    ]
    layout["yaxis"] |= {
        "tickvals": list(rows.values()),
        "ticktext": [as_text(lanes[member]) for member in rows],
        "autorange": "reversed",
        "showgrid": False,
        "automargin": True,
    }
    return {"data": traces, "layout": layout}


def message_figure(text: str, theme: Theme = "light") -> Figure:
    """Return an empty figure with the reason as text."""
    layout = base_layout(theme, "", "")
    layout["xaxis"] |= {"visible": False}
    layout["yaxis"] |= {"visible": False}
    layout["uirevision"] = "empty"  # a later figure must not keep the axes of this one
    layout["annotations"] = [
        {"text": as_text(text), "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    ]
    return {"data": [], "layout": layout}


def base_layout(theme: Theme, x_title: str, y_title: str) -> dict[str, Any]:
    """Return the layout that all figures share."""
    axis = {"gridcolor": _GRID[theme], "zeroline": False, "linecolor": _GRID[theme], "automargin": True}
    return {
        "font": {"family": _FONT, "size": 12, "color": _INK[theme]},
        "paper_bgcolor": _PAPER[theme],
        "plot_bgcolor": _PAPER[theme],
        "margin": {"l": 48, "r": 14, "t": 10, "b": 38},
        "xaxis": axis | {"title": {"text": as_text(x_title), "standoff": 6}, "exponentformat": "SI"},
        "yaxis": axis | {"title": {"text": as_text(y_title), "standoff": 6}, "exponentformat": "SI"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 10.5}},
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": _PAPER[theme], "font": {"color": _INK[theme]}, "namelength": 40},
        # Keep zoom and hidden lines over updates.
        "uirevision": "keep",
        "showlegend": True,
    }


def encoded(values: np.ndarray, dtype: Literal["f4", "f8"] = "f4") -> dict[str, Any]:
    """Return an array as Plotly's typed array, which needs no parsing and has NaN for gaps."""
    array = np.ascontiguousarray(values, f"<{dtype}")
    return {"dtype": dtype, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}


def decoded(value: Any) -> np.ndarray:
    """Return the array of an `encoded` value, or of a plain list."""
    if isinstance(value, Mapping):
        return np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
    return np.asarray(value)


def as_text(text: str) -> str:
    """Return text that Plotly shows literally: it would interpret some tags, including links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _band(curve: Curve, colour: str) -> list[dict[str, Any]]:
    assert curve.low is not None
    assert curve.high is not None
    edge: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "x": encoded(curve.x, "f8"),
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    edge |= {"showlegend": False, "name": as_text(curve.name) + " band"}
    low = edge | {"y": encoded(curve.low)}
    return [low, edge | {"y": encoded(curve.high), "fill": "tonexty", "fillcolor": _rgba(colour, 0.2)}]


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


def _rgba(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
