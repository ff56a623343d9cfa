"""Comparison of several runs on one axis: curves, their names, and groups of runs that differ only in their seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from launch.dashboard.figures import Curve
from launch.records.curves import band_over_runs, smooth
from launch.records.listing import Entry
from launch.records.series import Axis, Series

_OF_THE_RUN_ALONE = ("seed", "run_dir", "quiet", "json", "resume", "capture_video", "track", "evaluation")
_MOST_NAMED = 3


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a config's values by the keys of the command line."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        key = prefix + str(name).replace("_", "-")
        if isinstance(value, Mapping):
            found |= flat(value, key + ".")
        else:
            found[key] = value
    return found


def group_by_settings(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return groups of runs that differ only in their seed, by the group's name.

    The name of a group lists the settings in which it differs from the other groups.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        rest = {name: value for name, value in entry.config.items() if name not in _OF_THE_RUN_ALONE}
        groups.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(entry)
    settings = [flat(json.loads(key)) for key in groups]
    differing = [
        key
        for key in dict.fromkeys(key for values in settings for key in values)
        if len({json.dumps(values.get(key)) for values in settings}) > 1
    ]
    named: dict[str, list[Entry]] = {}
    for values, members in zip(settings, groups.values(), strict=True):
        shown = [f"{key.rpartition('.')[2]} {_show(values.get(key))}" for key in differing[:_MOST_NAMED]]
        base = " ".join(str(values[key]) for key in ("preset", "env") if values.get(key))
        name = ", ".join(shown) or base or members[0].name
        seeds = f" ({len(members)} seeds)" if len(members) > 1 else ""
        while name + seeds in named:
            name += "'"
        named[name + seeds] = members
    return named


def single_curves(entries: Sequence[Entry], series: Mapping[str, Series], axis: Axis, half_width: int) -> list[Curve]:
    """Return a curve for each run that has one.

    Args:
        entries: the runs.
        series: by key of the run.
        axis: of x.
        half_width: of smoothing, in points.
    """
    return [
        Curve(entry.name, series[entry.key].axes[axis], smooth(series[entry.key].values, half_width), colour=place)
        for place, entry in enumerate(entries)
        if entry.key in series
    ]


def seed_curves(entries: Sequence[Entry], series: Mapping[str, Series], axis: Axis, half_width: int) -> list[Curve]:
    """Return mean and band (one standard deviation) of every group of runs that differ only in their seed."""
    curves = []
    for place, (name, members) in enumerate(group_by_settings(entries).items()):
        known = [series[entry.key] for entry in members if entry.key in series]
        if not known:
            continue
        x, mean, low, high = band_over_runs([(each.axes[axis], smooth(each.values, half_width)) for each in known])
        edges = (low, high) if len(known) > 1 else (None, None)
        curves.append(Curve(name, x, mean, edges[0], edges[1], colour=place))
    return curves


def _show(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
