"""The panels of a run's page: choice and drawing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from launch.dashboard.figures import Curve, Figure, Theme, in_byte_units, line_figure, message_figure
from launch.recording.metric_panels import PANELS, WAYS, Line, Panel
from launch.recording.metric_table import EVALUATION, RATE, RETURN, known_key, metric_of
from launch.records.curves import carried, growth_ratio, rate, smooth
from launch.records.listing import printable
from launch.records.seed_bands import band_over_seeds
from launch.records.series import Axis, Series

AXIS_TITLES: dict[Axis, str] = {
    "env_steps": "env steps",
    "frames": "frames",
    "seconds": "training time (s)",
    "learner_steps": "learner steps",
}

Scale = Literal["all", "most", "log"]
SCALES: dict[Scale, str] = {"all": "all values", "most": "without outliers", "log": "logarithmic"}
"""Ranges of y axes: the whole range, that of the values between the 2nd and the 98th percentile, or decades."""
_MOST = (2.0, 98.0)
_MARGIN = 0.05
_NO_BASELINE = {
    "text": "areas on top of each other have no baseline",
    "xref": "paper",
    "yref": "paper",
    "x": 1,
    "y": 1,
    "xanchor": "right",
    "yanchor": "top",
    "showarrow": False,
    "font": {"size": 10.5},
}

SECTIONS: dict[str, tuple[str, ...]] = {
    "Learning": (
        *("return", "tasks", "length", "losses", "entropy", "value", "values", "actions", "temperature", "epsilon"),
        *("gradient", "rate"),
    ),
    "Off-policy": ("acceptance", "projected", "far", "kl", "ratios", "clipped", "lag"),
    "Replay": ("age", "fraction", "samples_per_insert", "fill", "bytes"),
    "Speed": ("throughput", "busy", "learner"),
    "System": ("cpu", "memory", "gpu", "gpu_memory"),
}
"""Sections of a run's page with the keys of their panels, in order."""

METRIC_TITLES = {
    RETURN: "return, last 20 episodes",
    EVALUATION: "return, evaluation",
    known_key("buckets/mean_return"): "return, bucket by bucket",
    known_key("entropy"): "entropy",
    known_key("accept_fraction_foreign_replay"): "accepted foreign steps",
    known_key("accept_fraction_own_replay"): "accepted own replayed steps",
    RATE: "env steps / s",
}
"""Titles of the metrics that are compared most."""

_MOST_TASKS = 8


def title_of(name: str) -> str:
    """Return the title of a recorded metric: its words, or its key."""
    return METRIC_TITLES.get(name) or printable(name)


def unit_of(name: str) -> str:
    """Return the unit of a recorded metric, or ""."""
    metric = metric_of(name)
    return metric.unit if metric else ""


def panels_of(known: Collection[str]) -> list[Panel]:
    """Return the panels of a run that has recorded these metrics, in the order of the page."""
    panels = [panel.of_run(known) for panel in PANELS]
    ways = [panel.key for panel in panels if panel.key in WAYS and panel.chosen(known)] or WAYS[:1]
    return [
        _first_tasks(panel) if panel.key == "tasks" else panel
        for panel in panels
        if (panel.key not in WAYS or panel.key in ways) and (panel.key != "tasks" or len(panel.lines) > 1)
    ]


def _first_tasks(panel: Panel) -> Panel:
    if len(panel.lines) <= _MOST_TASKS:
        return panel
    title = f"{panel.title} (the first {_MOST_TASKS} of {len(panel.lines)})"
    return replace(panel, title=title, lines=panel.lines[:_MOST_TASKS])


def draw(
    panel: Panel,
    series: Mapping[str, Series],
    axis: Axis,
    theme: Theme,
    half_width: int = 0,
    scale: Scale = "all",
    baselines: Sequence[Mapping[str, Series]] = (),
) -> Figure:
    """Return a panel's figure, or a figure with a message about missing metrics.

    Args:
        panel: what is drawn.
        series: by name.
        axis: of time.
        theme: of colours.
        half_width: neighbours on either side that smoothing averages.
        scale: of the y axis, unless the panel has a fixed range.
        baselines: series of other runs, to lay under those of this one: of one run, or of the seeds of a setting, whose
            mean is drawn with its 95 % interval; areas on top of each other have none.
    """
    curves = [
        curve
        for place, line in enumerate(panel.chosen(series))
        for curve in _curves(line, place, series, axis, half_width, panel.stacked)
    ]
    if not curves:
        return message_figure(panel.missing or "nothing has been recorded", theme)
    if baselines and not panel.stacked:
        curves = [*_baseline(panel.chosen(series), baselines, axis, half_width), *curves]
    curves, y_title = in_byte_units(curves, panel.y_title)
    is_free = panel.y_range is None and not panel.stacked
    figure = line_figure(
        curves,
        AXIS_TITLES[axis],
        y_title,
        theme,
        y_range=range_of_most(curves) if is_free and scale == "most" else panel.y_range,
        # A logarithmic axis would leave out curves that are negative.
        log_y=is_free and scale == "log" and any(bool((curve.y > 0).any()) for curve in curves),
        from_zero=panel.from_zero and scale == "all",
        stacked=panel.stacked,
    )
    if baselines and panel.stacked:
        figure["layout"]["annotations"] = [_NO_BASELINE]
    return figure


def _baseline(lines: Sequence[Line], runs: Sequence[Mapping[str, Series]], axis: Axis, half_width: int) -> list[Curve]:
    """Return other runs' curves of these lines, in the same colours: of several runs their mean with its interval."""
    found = []
    for place, line in enumerate(lines):
        curves = [
            curve
            for series in runs
            if all(name in series for name in (line.name, *line.below))
            for curve in _curves(line, place, series, axis, half_width, is_stacked=True)
        ]
        if len(runs) == 1:
            found += [replace(curve, name=f"{curve.name}, baseline", low=None, high=None) for curve in curves]
        elif (band := band_over_seeds([(curve.x, curve.y) for curve in curves], "interval")) is not None:
            name = f"{curves[0].name}, mean of {len(curves)} baselines"
            found.append(replace(curves[0], name=name, x=band.x, y=band.centre, low=band.low, high=band.high))
    return [replace(curve, is_baseline=True) for curve in found]


def range_of_most(curves: Sequence[Curve]) -> tuple[float, float] | None:
    """Return the range of most values, so that a few outliers do not flatten a curve; None without any value.

    Each curve counts as much as any other, however many points it has.
    """
    ends = [np.nanpercentile(curve.y, _MOST) for curve in curves if np.isfinite(curve.y).any()]
    if not ends:
        return None
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    margin = _MARGIN * (high - low) or abs(high) * _MARGIN or 1.0
    return float(low - margin), float(high + margin)


def _curves(
    line: Line, place: int, series: Mapping[str, Series], axis: Axis, half_width: int, is_stacked: bool
) -> list[Curve]:
    """Return a line's curve, on its raw values if it is smoothed; nothing if it has no points."""
    base = series[line.name]
    if line.kind == "rate":
        base = rate(base)
    elif line.kind == "share":
        base = growth_ratio(base, [series[name] for name in line.below])
    low = high = None
    if line.band and all(name in series for name in line.band):
        low, high = (carried(series[name], base.ticks) for name in line.band)
    if not len(base):
        return []
    colour, x = place if line.colour is None else line.colour, base.axes[axis]
    if not half_width or line.is_faint:
        return [Curve(line.label, x, base.values, low, high, colour, line.is_faint)]
    curve = Curve(line.label, x, smooth(base.values, half_width), low, high, colour)
    if is_stacked:  # raw areas would be added to the smoothed ones
        return [curve]
    return [Curve(line.label, x, base.values, colour=colour, is_faint=True, in_legend=False), curve]
