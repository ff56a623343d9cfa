"""The figures of a sweep's settings: importance, the return over one of them, over two, and over all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from launch.dashboard.figures import (
    Figure,
    Theme,
    as_text,
    base_layout,
    colour_of,
    greatest,
    heat_figure,
    ink,
    message_figure,
    scatter_figure,
    shade,
)
from launch.dashboard.importance import Importance
from launch.dashboard.outcomes import NO_RETURN, Outcome, Value, ordered, varied
from launch.formats import axis_formats, short
from launch.records.listing import printable

BY_RETURN = "return"
"""Colour by the return, in place of a setting."""
_DECADES = 30.0
_MOST_CELLS = 16
_PALE = 0.85


def importance_figure(table: Sequence[Importance], theme: Theme) -> Figure:
    """Draw the importance of each setting as a bar with its interval."""
    names = [as_text(printable(one.key)) for one in table]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [one.mean for one in table],
        "y": names,
        "text": [f"{short(one.mean)} ({short(one.low)} to {short(one.high)})" for one in table],
        "hovertemplate": "%{y}: %{text}<extra></extra>",
        "textposition": "none",
        "marker": {"color": colour_of(0, theme)},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [one.high - one.mean for one in table],
            "arrayminus": [one.mean - one.low for one in table],
            "color": ink(theme),
            "thickness": 1.5,
        },
    }
    layout = base_layout(theme, "error when shuffled, variances", "")
    layout["hovermode"] = "closest"
    layout["showlegend"] = False
    layout["yaxis"] |= {"autorange": "reversed", "type": "category"}
    layout["xaxis"] |= {"zeroline": True, "zerolinecolor": ink(theme), "zerolinewidth": 1}
    return {"data": [trace], "layout": layout}


def importance_words(table: Sequence[Importance], explained: float) -> str:
    """Return in words which settings matter."""
    if not table:
        return "all returns are equal: no setting matters"
    seen = f"a forest explains {100 * max(0.0, explained):.0f} % of the variance of settings that it has not seen"
    matter = [printable(one.key) for one in table if one.low > 0]
    if explained <= 0 or not matter:
        return f"no setting can be told to matter: {seen}"
    others = [printable(one.key) for one in table if one.low <= 0]
    rest = f"; no effect can be told of {', '.join(others)}" if others else ""
    return f"{', '.join(matter)} matter{'' if len(matter) > 1 else 's'}{rest}; {seen}"


def one_setting_figure(rows: Sequence[dict[str, Any]], key: str, colour: str, theme: Theme) -> Figure:
    """Draw each member's return over the value of one setting.

    Args:
        rows: of the table of members.
        key: of the setting.
        colour: key of the setting that colours the points, or `BY_RETURN`, which the height shows already.
        theme: of colours.
    """
    known = [row for row in rows if row["return"] is not None]
    if not known or not key:
        return message_figure(NO_RETURN, theme)
    figure = scatter_figure(
        [row["settings"][key] for row in known],
        [row["return"] for row in known],
        [str(row["name"]).removeprefix("member ") for row in known],
        printable(key),
        "return, last 20 episodes",
        theme,
    )
    if colour != BY_RETURN:
        values = [row["settings"].get(colour) for row in known]
        figure["data"][0]["marker"]["color"] = _colours(values, theme)
        figure["data"][0]["showlegend"] = False
        figure["data"] += _key(ordered(values), theme, colour)
        figure["layout"]["showlegend"] = True
    return figure


def two_settings_figure(outcomes: Sequence[Outcome], across: str, down: str, theme: Theme) -> Figure:
    """Draw the mean return by the values of two settings: cells, or points where almost every value is its own."""
    known = [one for one in outcomes if math.isfinite(one.value)]
    if not known:
        return message_figure(NO_RETURN, theme)
    if not across or not down:
        return message_figure("only one setting of this sweep has several values", theme)
    if across == down:
        return message_figure("choose two different settings", theme)
    columns, rows = (ordered([one.settings.get(key) for one in known]) for key in (across, down))
    if max(len(columns), len(rows)) > _MOST_CELLS:
        return _two_as_points(known, across, down, theme)
    cells: dict[tuple[int, int], list[Outcome]] = defaultdict(list)
    for one in known:
        if across in one.settings and down in one.settings:
            cells[rows.index(one.settings[down]), columns.index(one.settings[across])].append(one)
    values = np.full((len(rows), len(columns)), np.nan)
    abouts = [[""] * len(columns) for _ in rows]
    for (row, column), those in cells.items():
        values[row, column] = np.mean([one.value for one in those])
        seeds = sum(one.num_seeds for one in those)
        abouts[row][column] = f"{len(those)} setting{'s' * (len(those) > 1)}, {seeds} seed{'s' * (seeds > 1)}"
    return heat_figure(
        values,
        [_named(value) for value in columns],
        [_named(value) for value in rows],
        (printable(across), printable(down)),
        theme,
        from_zero=False,
        hover="%{x}, %{y}: mean return %{text} (%{customdata})",
        abouts=abouts,
    )


def all_settings_figure(outcomes: Sequence[Outcome], colour: str, theme: Theme) -> Figure:
    """Draw every setting as a line over one axis per key, and the return at the right: parallel coordinates.

    Dragging along an axis keeps the lines that cross it there (see assets/parallel.js).

    Args:
        outcomes: one line each.
        colour: key of the setting that colours the lines, or `BY_RETURN`.
        theme: of colours.
    """
    known = sorted((one for one in outcomes if math.isfinite(one.value)), key=lambda one: one.value)
    keys = varied(known)
    if not known or not keys:
        return message_figure(NO_RETURN if not known else "no setting has several values", theme)
    columns: list[list[Value | None]] = [[one.settings.get(key) for one in known] for key in keys]
    columns.append([one.value for one in known])
    heights, marks = zip(*map(_heights, columns), strict=True)
    ends = [*marks[:-1], [marks[-1][0], marks[-1][-1]]]
    of = columns[-1] if colour == BY_RETURN else [one.settings.get(colour) for one in known]
    colours = _colours(of, theme)
    x = list(range(len(columns)))
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": as_text(printable(one.name, 200)),
            "x": x,
            "y": [height[place] for height in heights],
            "line": {"color": colours[place], "width": 2},
            "marker": {"color": colours[place], "size": 5},
            "hovertemplate": as_text(f"{printable(one.name, 200)}: mean {short(one.value)}, {_seeds(one)}")
            + "<extra></extra>",
            "showlegend": False,
            "connectgaps": False,
        }
        for place, one in enumerate(known)
    ]
    if colour != BY_RETURN:
        traces += _key(ordered(of), theme, colour)
    layout = base_layout(theme, "", "")
    layout |= {"hovermode": "closest", "showlegend": colour != BY_RETURN, "dragmode": "select"}
    layout["selectdirection"] = "v"
    layout["margin"] = {"l": 60, "r": 60, "t": 30, "b": 46}
    names = [key.rpartition(".")[2] for key in keys] + ["return"]
    layout["xaxis"] |= {
        "tickvals": x,
        "ticktext": [as_text(printable(name, 40)) for name in names],
        "range": [-0.15, len(columns) - 0.85],
        "showgrid": False,
        "fixedrange": True,
    }
    layout["yaxis"] |= {"visible": False, "range": [-0.08, 1.08], "fixedrange": True}
    layout["shapes"] = [
        {"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "line": {"color": ink(theme), "width": 1}}
        | {"layer": "below"}
        for place in x
    ]
    layout["annotations"] = [
        {"x": place, "y": height, "text": as_text(name), "showarrow": False, "xanchor": "left", "xshift": 5}
        | {"font": {"size": 11}, "bgcolor": layout["paper_bgcolor"], "opacity": _PALE}
        for place, those in enumerate(ends)
        for height, name in those
    ]
    return {"data": traces, "layout": layout}


def _two_as_points(known: Sequence[Outcome], across: str, down: str, theme: Theme) -> Figure:
    both = [one for one in known if across in one.settings and down in one.settings]
    figure = scatter_figure(
        [one.settings[across] for one in both],
        [0.0] * len(both),
        [f"mean return {short(one.value)}, {_seeds(one)}" for one in both],
        printable(across),
        printable(down),
        theme,
    )
    trace, down_axis = figure["data"][0], figure["layout"]["yaxis"]
    trace |= {
        "mode": "markers",
        "y": [one.settings[down] for one in both],
        "customdata": [[as_text(_named(one.settings[key])) for key in (across, down)] for one in both],
        "hovertemplate": "%{customdata[0]}, %{customdata[1]}: %{text}<extra></extra>",
    }
    trace["marker"]["color"] = _colours([one.value for one in both], theme)
    values = [one.settings[down] for one in both]
    numbers = [value for value in values if isinstance(value, float | int)]
    if len(numbers) < len(values):
        down_axis["type"] = "category"
    else:
        is_log = _is_wide(numbers)
        down_axis |= axis_formats(greatest(numbers), is_log=is_log) | ({"type": "log"} if is_log else {})
    return figure


def _seeds(one: Outcome) -> str:
    return f"{one.num_seeds} seed{'' if one.num_seeds == 1 else 's'}"


def _named(value: Value) -> str:
    return printable(value, 40) if isinstance(value, str) else short(value)


def _is_wide(numbers: Sequence[float]) -> bool:
    return bool(numbers) and min(numbers) > 0 and max(numbers) / min(numbers) >= _DECADES


def _heights(values: Sequence[Value | None]) -> tuple[list[float | None], list[tuple[float, str]]]:
    """Return the place of each value on its axis, in [0, 1], and the names of places."""
    known = ordered(values)
    numbers = [float(value) for value in known if not isinstance(value, str)]
    if len(numbers) < len(known) or len(known) < 2:  # words stand at even distances
        step = 1.0 / max(1, len(known) - 1)
        places = {value: place * step for place, value in enumerate(known)}
        return [None if value is None else places[value] for value in values], [
            (places[value], _named(value)) for value in known
        ]
    scale: Callable[[float], float] = math.log if _is_wide(numbers) else float
    low, high = scale(numbers[0]), scale(numbers[-1])
    found = [None if value is None else (scale(float(value)) - low) / (high - low) for value in values]
    few = known if len(known) <= 6 else [known[0], known[-1]]
    return found, [((scale(float(value)) - low) / (high - low), _named(value)) for value in few]


def _colours(values: Sequence[Value | None], theme: Theme) -> list[str]:
    """Return a colour for each value: shades of numbers, the palette's colours of words."""
    known = ordered(values)
    if any(isinstance(value, str) for value in known):
        return [colour_of(0 if value is None else known.index(value), theme) for value in values]
    heights, _ = _heights(values)
    return [shade(0.0 if height is None else height, theme) for height in heights]


def _key(values: Sequence[Value], theme: Theme, title: str) -> list[dict[str, Any]]:
    """Return entries of the legend: which colour is which value, the least and the greatest of many numbers."""
    many = len(values) > 6 and not isinstance(values[-1], str)
    shown = [values[0], values[-1]] if many else values[:8]
    colours = dict(zip(values, _colours(list(values), theme), strict=True))
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [None],
            "y": [None],
            "name": as_text(f"{printable(title.rpartition('.')[2])} {_named(value)}"),
            "marker": {"color": colours[value], "size": 9},
        }
        for value in shown
    ]
