"""Figures in Plotly's format: plain dicts of traces and layout, made from arrays without an import of Plotly.

Colours are Okabe and Ito's, which colour-blind readers can distinguish; from the ninth on, lines are dashed too.
"""

from __future__ import annotations

import base64
import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from launch.formats import axis_formats, byte_unit, pointer_format, short

Theme = Literal["light", "dark"]
Figure = dict[str, Any]

_COLOURS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#b5568c", "#c98500", "#3a9fd8", "#5a5a5a", "#8c6d1f"),
    "dark": ("#56b4e9", "#f0873a", "#2fc79b", "#e39ac5", "#f0c04a", "#8fd0f5", "#c8c8c8", "#e5d86a"),
}
_INK = {"light": "#24292f", "dark": "#d7dce2"}
_GRID = {"light": "#e6e8eb", "dark": "#30363d"}
_PAPER = {"light": "#ffffff", "dark": "#161b22"}
_HEAT = {"light": ("#eef4fa", "#5aa2d6"), "dark": ("#1c2733", "#2f7fb8")}
_SHADES = {"light": ("#f0c98a", "#00457a"), "dark": ("#7a5a1e", "#8fd0f5")}
_MOST_WRITTEN = 150
"""Cells of a map that have room for their numbers."""
_LINE = 48
"""Characters of a message's line, for which a narrow picture has room."""
_MOST_MARKS = 8
"""Values of a setting that all stand at its axis."""
_COUNTED = 100.0
_LEGEND_SHARE = 0.24
"""Greatest share of a figure's height for its legend, which scrolls to further names: half is left for the curves."""
_MOST_IN_BOX = 10
"""Curves whose values fit into the strip above them; of more curves a label at the pointer shows the nearest one."""
_CLOSEST: dict[str, Any] = {"hovermode": "closest", "hoverdistance": 60, "spikedistance": -1}
_CROSSHAIR: dict[str, Any] = {
    "showspikes": True,
    "spikemode": "across",
    "spikesnap": "hovered data",
    "spikethickness": 1,
    "spikedash": "dot",
}
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
        in_legend: False: a line without an entry in the legend and without a value on hovering.
        is_baseline: a dotted line of another run, without an entry in the legend.
        end: text on hovering over a mark at the last point, which shows that the line ends before others; "": none.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    colour: int | None = None
    is_faint: bool = False
    in_legend: bool = True
    is_baseline: bool = False
    end: str = ""


def behind(name: str, pieces: Sequence[tuple[np.ndarray, np.ndarray]], colour: int) -> Curve:
    """Return many faint lines behind the others as one curve with gaps: hundreds of curves take seconds to draw.

    Args:
        name: of all of them.
        pieces: (x [M], y [M]) of each line.
        colour: number of their colour.
    """
    x, y = (np.concatenate([np.append(line, np.nan) for line in lines]) for lines in zip(*pieces, strict=True))
    return Curve(name, x, y, colour=colour, is_faint=True, in_legend=False)


def colour_of(number: int, theme: Theme = "light") -> str:
    """Return a colour of the palette, as #rrggbb."""
    colours = _COLOURS[theme]
    return colours[number % len(colours)]


def dash_of(number: int) -> str:
    """Return the dashes of a line by its number, in Plotly's words: another pattern after each round of colours."""
    return _DASHES[number // len(_COLOURS["light"]) % len(_DASHES)]


def ink(theme: Theme) -> str:
    """Return the colour of text, as #rrggbb."""
    return _INK[theme]


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
    has_legend = sum(curve.in_legend and not curve.is_baseline for curve in curves) > 1
    names_nearest = sum(curve.in_legend for curve in curves) > _MOST_IN_BOX
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
                "dash": dash_of(number),
            },
            "opacity": 0.35 if curve.is_faint else 1.0,
            "legendgroup": str(place),
        }
        if curve.is_baseline:
            trace |= {"showlegend": False, "opacity": 0.75, "line": {"color": colour, "width": 1.5, "dash": "dot"}}
        if not curve.in_legend:
            trace |= {"showlegend": False, "hoverinfo": "skip"}
        else:
            trace |= at_pointer(curve.y)
            if names_nearest:
                value = "%{customdata}" if "customdata" in trace else "%{y}"
                trace["hovertemplate"] = f"%{{fullData.name}}: {value}<br>%{{x}} {as_text(x_title)}<extra></extra>"
        if stacked:
            trace |= {"stackgroup": "all", "line": {"color": colour, "width": 0.5}, "fillcolor": _rgba(colour, 0.75)}
        traces.append(trace)
        if curve.end and len(curve.x):
            traces.append(_end(curve, colour))
    layout = base_layout(theme, x_title, y_title)
    layout["showlegend"] = has_legend
    if names_nearest:
        layout |= _CLOSEST
        for axis in ("xaxis", "yaxis"):
            layout[axis] |= _CROSSHAIR | {"spikecolor": _INK[theme]}
    furthest = max((greatest(curve.x) for curve in curves), default=0.0)
    # Steps are counts, which are shown in full.
    layout["xaxis"] |= axis_formats(furthest) | {"hoverformat": ",.0f" if furthest >= _COUNTED else ",.4~g"}
    if log_y:
        layout["yaxis"]["type"] = "log"
    if from_zero and not log_y:
        highest = max((float(np.nanmax(curve.y, initial=0.0)) for curve in curves), default=0.0)
        tallest = max((float(np.nanmax(c.high, initial=0.0)) for c in curves if c.high is not None), default=0.0)
        y_range = (0.0, 1.08 * max(highest, tallest) or 1.0)
    if y_range is not None:
        layout["yaxis"] |= {"range": list(y_range), "autorange": False}
    drawn = [y_range] if y_range is not None else [part for each in curves for part in (each.y, each.low, each.high)]
    most = max((greatest(part) for part in drawn if part is not None), default=0.0)
    layout["yaxis"] |= axis_formats(most, is_log=log_y)
    return {"data": traces, "layout": layout}


def at_pointer(values: np.ndarray) -> dict[str, Any]:
    """Return how a trace writes its values at the pointer: by a format, or as texts where no format suits all of them.

    Args:
        values: [N], on the y axis.
    """
    sizes = np.abs(values[np.isfinite(values)])
    if form := pointer_format(float(np.min(sizes, initial=np.inf)), greatest(values)):
        return {"yhoverformat": form}
    texts = [short(value) for value in values.tolist()]
    return {"customdata": texts, "hovertemplate": "%{fullData.name} : %{customdata}<extra></extra>"}


def greatest(values: Any) -> float:
    """Return the greatest size of the finite values in an array or a list, 0 without any."""
    sizes = np.abs(np.asarray(values, float))
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0))


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
        "mode": "markers+text" if len(labels) <= 12 else "markers",
        "x": [as_text(value) if isinstance(value, str) else value for value in x],
        "y": [float(value) if np.isfinite(value) else None for value in y],
        "text": [as_text(label) for label in labels],
        "textposition": "top center",
        "textfont": {"size": 11},
        "marker": {"size": 11, "color": colour_of(0, theme), "line": {"width": 1, "color": _PAPER[theme]}},
        "customdata": [[_said(each) for each in pair] for pair in zip(x, y, strict=True)],
        "hovertemplate": "%{text}: %{customdata[1]}<br>%{customdata[0]}<extra></extra>",
        "cliponaxis": False,
    }
    layout = base_layout(theme, x_title, y_title)
    layout["hovermode"] = "closest"
    layout["showlegend"] = False
    numbers = [value for value in x if isinstance(value, (int, float))]
    layout["yaxis"] |= axis_formats(greatest(y))
    is_log = False
    if len(numbers) < len(x):
        layout["xaxis"]["type"] = "category"
    elif numbers and min(numbers) > 0 and max(numbers) / min(numbers) >= 30:
        is_log = True
        layout["xaxis"] |= {"type": "log", "dtick": 1}
    layout["xaxis"] |= axis_formats(greatest(numbers), is_log=is_log)
    marks = sorted(set(numbers))
    if len(numbers) == len(x) and len(marks) <= _MOST_MARKS:
        layout["xaxis"] |= {"tickvals": marks, "ticktext": [short(value) for value in marks]}
    return {"data": [trace], "layout": layout}


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


def heat_figure(
    values: np.ndarray,
    columns: Sequence[str],
    rows: Sequence[str],
    titles: tuple[str, str],
    theme: Theme = "light",
    *,
    share: bool = False,
    from_zero: bool = True,
    hover: str = "%{y} from %{x}: %{text}",
    abouts: Sequence[Sequence[str]] = (),
) -> Figure:
    """Return a map of numbers as coloured cells; a cell without a number is empty.

    Args:
        values: [rows, columns]; NaN: no number.
        columns: names from left to right.
        rows: names from top to bottom.
        titles: of the columns and of the rows.
        theme: of colours.
        share: the numbers are shares, in [0, 1].
        from_zero: the palest colour is 0; else the least number.
        hover: text at the pointer, in Plotly's notation; `%{customdata}` is what `abouts` says.
        abouts: [rows][columns] texts.
    """

    def written(value: float) -> str:
        if not np.isfinite(value):
            return ""
        return f"{100 * value:.0f} %" if share else short(value)

    texts = [[written(value) for value in row] for row in values]
    fits = values.size <= _MOST_WRITTEN
    trace = {
        "type": "heatmap",
        "z": [[float(value) if np.isfinite(value) else None for value in row] for row in values],
        "x": [as_text(name) for name in columns],
        "y": [as_text(name) for name in rows],
        "text": texts,
        "texttemplate": "%{text}" if fits else "",
        "colorscale": [[0.0, _HEAT[theme][0]], [1.0, _HEAT[theme][1]]],
        "xgap": 1,
        "ygap": 1,
        "showscale": not fits,
        "colorbar": {"thickness": 10} | ({"tickformat": ".0%"} if share else axis_formats(greatest(values))),
        "hovertemplate": f"{hover}<extra></extra>",
    }
    if from_zero:
        trace["zmin"] = 0.0
    if abouts:
        trace["customdata"] = [[as_text(text) for text in row] for row in abouts]
    layout = base_layout(theme, titles[0], titles[1])
    layout["hovermode"] = "closest"
    layout["xaxis"] |= {"type": "category", "showgrid": False}
    layout["yaxis"] |= {"type": "category", "showgrid": False, "autorange": "reversed"}
    return {"data": [trace], "layout": layout}


def message_figure(text: str, theme: Theme = "light") -> Figure:
    """Return an empty figure with the reason as text."""
    layout = base_layout(theme, "", "")
    layout["xaxis"] |= {"visible": False}
    layout["yaxis"] |= {"visible": False}
    layout["uirevision"] = "empty"  # a later figure must not keep the axes of this one
    layout["annotations"] = [
        {
            "text": "<br>".join(map(as_text, textwrap.wrap(text, _LINE))),
            "showarrow": False,
            "xref": "paper",
            "yref": "paper",
            "x": 0.5,
            "y": 0.5,
        }
    ]
    return {"data": [], "layout": layout}


def base_layout(theme: Theme, x_title: str, y_title: str) -> dict[str, Any]:
    """Return the layout that all figures share."""
    axis = {"gridcolor": _GRID[theme], "zeroline": False, "linecolor": _GRID[theme], "automargin": True}
    axis |= axis_formats(0.0)
    return {
        "font": {"family": _FONT, "size": 12, "color": _INK[theme]},
        "paper_bgcolor": _PAPER[theme],
        "plot_bgcolor": _PAPER[theme],
        # Above the curves there is room for a line of their values at the pointer, see assets/values.js.
        "margin": {"l": 48, "r": 14, "t": 20, "b": 38},
        "xaxis": axis | {"title": {"text": as_text(x_title), "standoff": 6}},
        "yaxis": axis | {"title": {"text": as_text(y_title), "standoff": 6}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 10.5}}
        | {"maxheight": _LEGEND_SHARE, "tracegroupgap": 0},
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": _PAPER[theme], "font": {"color": _INK[theme]}, "namelength": -1},
        # Keep zoom and hidden lines over updates.
        "uirevision": "keep",
        "showlegend": True,
    }


def in_byte_units(curves: Sequence[Curve], unit: str) -> tuple[list[Curve], str]:
    """Return curves of bytes in the unit that suits the largest, and its name; other curves as they are."""
    if unit != "bytes":
        return list(curves), unit
    scale, name = byte_unit(max((float(np.nanmax(curve.y, initial=0.0)) for curve in curves), default=0.0))

    def scaled(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values / scale

    found = []
    for curve in curves:
        low, high = scaled(curve.low), scaled(curve.high)
        found.append(dataclasses.replace(curve, y=curve.y / scale, low=low, high=high))
    return found, name


def encoded(values: np.ndarray, dtype: Literal["f4", "f8"] = "f4") -> dict[str, Any]:
    """Return an array as Plotly's typed array, which needs no parsing and has NaN for gaps."""
    array = np.ascontiguousarray(values, f"<{dtype}")
    return {"dtype": dtype, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}


def decoded(value: Any) -> np.ndarray:
    """Return the array of an `encoded` value, or of a plain list."""
    if isinstance(value, Mapping):
        return np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
    return np.asarray(value)


def shade(share: float, theme: Theme) -> str:
    """Return the colour of a place between the least value (0) and the greatest (1), as #rrggbb."""
    pale, strong = ([int(one[at : at + 2], 16) for at in (1, 3, 5)] for one in _SHADES[theme])
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(pale, strong, strict=True))


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


def _said(value: float | str) -> str:
    return as_text(value) if isinstance(value, str) else short(value)


def _end(curve: Curve, colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": as_text(curve.end),
        "x": [float(curve.x[-1])],
        "y": [float(curve.y[-1])],
        "marker": {"color": colour, "size": 11, "symbol": "line-ns-open", "line": {"width": 2.5}},
        "hovertemplate": as_text(curve.end) + "<extra></extra>",
        "showlegend": False,
    }


def _rgba(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
