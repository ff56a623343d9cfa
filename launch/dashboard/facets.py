"""The pictures of a comparison: one for each metric and environment, with a curve for each run or setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from laser.scoring.scores import find_reference
from launch.dashboard.comparing import group_by_settings
from launch.dashboard.figures import (
    Curve,
    Figure,
    Theme,
    as_text,
    behind,
    in_byte_units,
    ink,
    line_figure,
    message_figure,
)
from launch.dashboard.library import Library
from launch.dashboard.panels import AXIS_TITLES, title_of, unit_of
from launch.recording.metric_table import EVALUATION, RETURN
from launch.records.curves import smooth
from launch.records.listing import Entry, printable
from launch.records.run_summary import NUM_POINTS
from launch.records.seed_bands import MOST_POINTS, Band, band_over_seeds
from launch.records.series import Axis, Series

POINTS_OF_A_CURVE = 800
"""Most points of one curve."""

_POINTS_OF_A_PICTURE = 8000
"""Points of all curves together, unless each has only as many as the runs' summaries hold, which are soon read."""


@dataclass(frozen=True)
class View:
    """The controls of a comparison.

    Args:
        metrics: to draw, one row of pictures each.
        axis: of x.
        half_width: of smoothing, in points.
        by_setting: one curve for the runs that differ only in their seed.
        band: around such a curve.
        one_axis: draw different environments on one axis.
        log: logarithmic y.
        references: draw the returns of random play and of people, and the return at which a run stops.
        zoom: see `ranges_of`.
        theme: of colours.
        is_preview: nobody has chosen the runs: their curves have as few points as their summaries hold.
    """

    metrics: tuple[str, ...] = (RETURN,)
    axis: Axis = "env_steps"
    half_width: int = 0
    by_setting: bool = False
    band: Band = "interval"
    one_axis: bool = False
    log: bool = False
    references: bool = False
    zoom: Any = None
    theme: Theme = "light"
    is_preview: bool = False


@dataclass(frozen=True)
class Facet:
    """One picture: a metric of the runs in one environment, or in all of them."""

    metric: str
    env: str
    entries: tuple[Entry, ...]
    names_env: bool

    @property
    def key(self) -> str:
        """The picture's identifier on the page."""
        return f"{self.metric} {self.env}" if self.env else self.metric

    @property
    def title(self) -> str:
        """The picture's title."""
        return f"{title_of(self.metric)} · {self.env}" if self.names_env else title_of(self.metric)


def facets_of(entries: Sequence[Entry], view: View) -> list[Facet]:
    """Return the pictures of a comparison: returns of different environments share an axis only if asked to."""
    by_env: dict[str, list[Entry]] = {}
    for entry in entries:
        by_env.setdefault("" if view.one_axis else printable(str(entry.config.get("env", "")), 80), []).append(entry)
    return [
        Facet(metric, env, tuple(runs), len(by_env) > 1)
        for metric in view.metrics
        for env, runs in (by_env or {"": []}).items()
    ]


def groups_of(entries: Sequence[Entry], view: View) -> dict[str, list[Entry]]:
    """Return the runs of each curve by its name; the place of a name is the number of its colour."""
    return group_by_settings(entries) if view.by_setting else {entry.name: [entry] for entry in entries}


def draw_facet(
    library: Library, facet: Facet, groups: Mapping[str, Sequence[Entry]], hidden: frozenset[str], view: View
) -> Figure:
    """Return a picture, without the runs that are hidden.

    Args:
        library: reads the curves.
        facet: the picture.
        groups: see `groups_of`; of all runs, so that hiding one changes no colour.
        hidden: keys of runs.
        view: the controls.
    """
    shown = [entry for entry in facet.entries if entry.key not in hidden]
    most = NUM_POINTS if view.is_preview else min(POINTS_OF_A_CURVE, _POINTS_OF_A_PICTURE // max(1, len(shown)))
    limit = max(NUM_POINTS, most)
    read = {entry.key: library.series(entry, [facet.metric], limit).get(facet.metric) for entry in shown}
    series = {key: found for key, found in read.items() if found is not None}
    if not series:
        return message_figure(_missing(facet, shown), view.theme)
    curves: list[Curve] = []
    for colour, (name, members) in enumerate(groups.items()):
        known = [series[entry.key] for entry in members if entry.key in series]
        if known:
            curves += (
                _seeds(known, limit, name, colour, view) if view.by_setting else _single(known[0], name, colour, view)
            )
    curves, unit = in_byte_units(curves, unit_of(facet.metric))
    figure = line_figure(
        sorted(curves, key=lambda curve: not curve.is_faint),
        AXIS_TITLES[view.axis],
        unit,
        view.theme,
        log_y=view.log,
    )
    # The dots of the table and the list of names stand for a legend, which would take half of a small picture.
    figure["layout"]["showlegend"] = False
    zoom_in(figure, view.zoom, facet.key, view.axis)
    if view.references:
        _add_references(figure, facet, view.theme)
    return figure


def zoom_in(figure: Figure, zoom: Any, key: str, axis: Axis, meta: str = "") -> None:
    """Give a figure the ranges that the user zoomed to, and a state of its own for each axis and scale.

    Args:
        figure: to change.
        zoom: see `ranges_of`.
        key: of the figure's panel on its page.
        axis: of x.
        meta: what the figure shows, where a control of the page changes this: a range of y belongs to it.
    """
    layout = figure["layout"]
    scale = "log" if layout["yaxis"].get("type") == "log" else ""
    layout |= {"meta": meta, "uirevision": f"{key} {meta} {axis} {scale}"}
    for name, bounds in ranges_of(zoom, " ".join(filter(None, (key, meta, scale))), axis).items():
        layout[name] |= {"range": bounds, "autorange": False}


def zoom_alone(figure: Figure, ranges: Any, key: str, meta: str = "") -> None:
    """Give a figure that has no axis in common with others the ranges that the user zoomed to.

    Args:
        figure: to change.
        ranges: what the page's script keeps, {FIGURE: {AXIS: [low, high]}}; any value is possible. FIGURE is the key of
            the panel and `meta`, AXIS as in the layout; a logarithmic one has "log" at its end, since its ranges are
            exponents.
        key: of the figure's panel on its page.
        meta: what the figure shows, where a control of the page changes this: the ranges belong to it.
    """
    layout = figure["layout"]
    own = f"{key} {meta}".strip()
    layout |= {"meta": meta, "uirevision": own}
    found = ranges.get(own) if isinstance(ranges, dict) else None
    for name in [name for name in layout if name.startswith(("xaxis", "yaxis"))]:
        known = f"{name} log" if layout[name].get("type") == "log" else name
        bounds = found.get(known) if isinstance(found, dict) else None
        if _is_range(bounds):
            layout[name] |= {"range": bounds, "autorange": False}


def ranges_of(zoom: Any, facet: str, axis: Axis) -> dict[str, list[float]]:
    """Return the ranges of a picture's axes that the user zoomed to, by "xaxis" and "yaxis".

    Args:
        zoom: what the page's script keeps, {"axis": AXIS, "x": [low, high], "y": {FACET: [low, high]}}; any value is
            possible.
        facet: key of the picture; a logarithmic axis has "log" at its end, since its ranges are exponents.
        axis: of x; a range on another axis means nothing here.
    """
    if not isinstance(zoom, dict) or zoom.get("axis") != axis:
        return {}
    y = zoom.get("y")
    found = {"xaxis": zoom.get("x"), "yaxis": y.get(facet) if isinstance(y, dict) else None}
    return {name: [float(end) for end in bounds] for name, bounds in found.items() if _is_range(bounds)}


def _is_range(value: Any) -> TypeGuard[list[float]]:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(end, (int, float)) and not isinstance(end, bool) and math.isfinite(end) for end in value)
    )


def _single(series: Series, name: str, colour: int, view: View) -> list[Curve]:
    x = series.axes[view.axis]
    if not view.half_width:
        return [Curve(name, x, series.values, colour=colour)]
    raw = Curve(name, x, series.values, colour=colour, is_faint=True, in_legend=False)
    return [raw, Curve(name, x, smooth(series.values, view.half_width), colour=colour)]


def _seeds(known: Sequence[Series], limit: int, name: str, colour: int, view: View) -> list[Curve]:
    seeds = [(each.axes[view.axis], smooth(each.values, view.half_width)) for each in known]
    band = band_over_seeds(seeds, view.band, min(limit, MOST_POINTS))
    if band is None:
        return []
    end = f"{name}: a seed ends here, the others go on" if band.rests else ""
    drawn = [Curve(name, band.x, band.centre, band.low, band.high, colour, end=end)]
    if band.rests:
        drawn.insert(0, behind(name, band.rests, colour))
    raw = band_over_seeds([(each.axes[view.axis], each.values) for each in known], view.band, min(limit, MOST_POINTS))
    if view.half_width and raw is not None:
        drawn.insert(0, Curve(name, raw.x, raw.centre, colour=colour, is_faint=True, in_legend=False))
    return drawn


def _missing(facet: Facet, shown: Sequence[Entry]) -> str:
    if not facet.entries:
        return "no run is left to draw: tick one, or change the filter"
    if not shown:
        return "all of these runs are hidden: their eyes in the table show them again"
    return f"none of these runs has recorded {facet.metric}"


def _add_references(figure: Figure, facet: Facet, theme: Theme) -> None:
    if facet.metric not in (RETURN, EVALUATION):
        return
    envs = {str(entry.config.get("env", "")) for entry in facet.entries}
    reference = find_reference(envs.pop()) if len(envs) == 1 else None
    lines = [] if reference is None else [("random", reference.random), ("human", reference.human)]
    goals = {entry.config.get("stop_at_return") for entry in facet.entries}
    lines += [("stop at return", goal) for goal in goals if isinstance(goal, (int, float)) and math.isfinite(goal)]
    is_log = figure["layout"]["yaxis"].get("type") == "log"
    if is_log:
        lines = [(name, y) for name, y in lines if y > 0]
    figure["layout"]["shapes"] = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y}
        | {"line": {"color": ink(theme), "width": 1, "dash": "dot"}}
        for _, y in lines
    ]
    figure["layout"]["annotations"] = [
        # Plotly places a line at its value on any axis, and a text at its exponent on a logarithmic one.
        {"xref": "paper", "x": 1, "y": math.log10(y) if is_log else y, "text": as_text(name), "showarrow": False}
        | {"xanchor": "right", "yanchor": "bottom", "font": {"size": 10.5}}
        for name, y in lines
    ]
