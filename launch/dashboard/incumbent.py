"""The best setting at each moment of a sweep, and how many episodes stand behind it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from launch.dashboard.figures import Curve, Figure, Theme, as_text, line_figure, message_figure
from launch.dashboard.formats import short
from launch.dashboard.library import Library
from launch.dashboard.outcomes import NO_RETURN
from launch.dashboard.panels import AXIS_TITLES
from launch.evaluation.settings_compared import SettingReturns, best_setting
from launch.recording.metric_table import RETURN, known_key
from launch.recording.return_curve import NUM_RETURNS
from launch.records.listing import Entry, member_number, printable
from launch.records.run_summary import NUM_POINTS
from launch.records.series import Axis, Series

_EPISODES = known_key("totals/episodes")
_NUM_MOMENTS = 60


def incumbent_figure(
    library: Library, members: Sequence[Entry], settings: Sequence[SettingReturns], axis: Axis, theme: Theme
) -> Figure:
    """Draw the mean return of the setting that is the best at each moment, by the rule of `best_setting`.

    A setting counts from the moment at which all of its seeds that ever have a return have one.

    Args:
        library: reads the curves.
        members: of the sweep.
        settings: their members; each member by itself in a population.
        axis: of time.
        theme: of colours.
    """
    number_of = {member.key: member_number(member) for member in members}
    read = {number_of[member.key]: library.series(member, [RETURN, _EPISODES], NUM_POINTS) for member in members}
    returns = {number: series[RETURN] for number, series in read.items() if RETURN in series}
    if not returns:
        return message_figure(NO_RETURN, theme)
    moments = np.linspace(0.0, max(float(one.axes[axis][-1]) for one in returns.values()), _NUM_MOMENTS + 1)[1:]
    at = {number: _at(series, axis, moments) for number, series in returns.items()}
    episodes = {number: _at(series[_EPISODES], axis, moments) for number, series in read.items() if _EPISODES in series}
    best = np.full(len(moments), np.nan)
    abouts: list[str] = []
    for place in range(len(moments)):
        winner = best_setting([one for one in (_then(one, at, place) for one in settings) if one is not None])
        if winner is None:
            abouts.append("")
            continue
        best[place] = winner.mean
        abouts.append(f"{printable(winner.name, 200)}: {short(winner.mean)}, {_behind(winner, episodes, place)}")
    if not np.isfinite(best).any():
        return message_figure("settings of different games have no common best", theme)
    figure = line_figure([Curve("best setting", moments, best, colour=1)], AXIS_TITLES[axis], "", theme)
    figure["data"][0] |= {
        "mode": "lines+markers",
        "line": figure["data"][0]["line"] | {"shape": "hv"},
        "marker": {"size": 4},
        "customdata": [as_text(each) for each in abouts],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    figure["layout"]["hovermode"] = "x"
    return figure


def _then(one: SettingReturns, at: Mapping[int, np.ndarray], place: int) -> SettingReturns | None:
    """Return a setting as it stood at a moment; None before all of its seeds have a return."""
    values = [float(at[number][place]) for number in one.members if number in at]
    if not values or not all(map(math.isfinite, values)):
        return None
    return dataclasses.replace(one, returns=tuple(values))


def _behind(one: SettingReturns, episodes: Mapping[int, np.ndarray], place: int) -> str:
    seeds = f"mean of {len(one.returns)} seed{'s' * (len(one.returns) > 1)}"
    counts = [float(episodes[number][place]) for number in one.members if number in episodes]
    if not counts:
        return seeds
    behind = sum(min(NUM_RETURNS, count) for count in counts if math.isfinite(count))
    return f"{seeds}, {behind:.0f} episode{'' if behind == 1 else 's'} behind it"


def _at(series: Series, axis: Axis, moments: np.ndarray) -> np.ndarray:
    """Return a series' newest value at each moment; NaN before its first."""
    place = np.searchsorted(series.axes[axis], moments, side="right") - 1
    return np.where(place >= 0, series.values[np.maximum(place, 0)], np.nan)
