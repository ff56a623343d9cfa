"""The best setting, or the best member, at each moment of a sweep, and how many episodes stand behind it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from launch.dashboard.comparing import setting_label
from launch.dashboard.figures import Curve, Figure, Theme, as_text, behind, line_figure, message_figure
from launch.dashboard.library import Library
from launch.dashboard.outcomes import NO_RETURN
from launch.dashboard.panels import AXIS_TITLES, METRIC_TITLES
from launch.evaluation.settings_compared import SettingReturns, best_setting
from launch.formats import short
from launch.recording.metric_table import RETURN, known_key
from launch.recording.return_curve import NUM_RETURNS
from launch.records.listing import Entry, member_number, printable
from launch.records.run_summary import NUM_POINTS
from launch.records.series import Axis, Series

_EPISODES = known_key("totals/episodes")
_NUM_MOMENTS = 60
_TOO_EARLY = f"no member has ended {NUM_RETURNS} episodes yet: a mean of fewer may be luck"


@dataclasses.dataclass(frozen=True)
class Returns:
    """Mean returns of the last 20 episodes of members, at the same moments.

    Args:
        moments: [M] on an axis.
        means: [M] by member's number; NaN until the member has ended 20 episodes. Members that never have are left out.
    """

    moments: np.ndarray
    means: Mapping[int, np.ndarray]


def returns_over_time(library: Library, members: Sequence[Entry], axis: Axis) -> Returns:
    """Read the mean returns of a sweep's members over an axis."""
    read = {member_number(each): library.series(each, [RETURN, _EPISODES], NUM_POINTS) for each in members}
    known = {number: series for number, series in read.items() if RETURN in series and _EPISODES in series}
    furthest = max((float(series[RETURN].axes[axis][-1]) for series in known.values()), default=0.0)
    moments = np.linspace(0.0, furthest, _NUM_MOMENTS + 1)[1:]
    means = {}
    for number, series in known.items():
        episodes = _at(series[_EPISODES], axis, moments)
        mean = np.where(episodes >= NUM_RETURNS, _at(series[RETURN], axis, moments), np.nan)
        if np.isfinite(mean).any():
            means[number] = mean
    return Returns(moments, means)


def incumbent_figure(
    library: Library, members: Sequence[Entry], settings: Sequence[SettingReturns], axis: Axis, theme: Theme
) -> Figure:
    """Draw the mean return of the setting that is the best at each moment, by the rule of `best_setting`.

    A setting counts from the moment at which all of its seeds that ever end 20 episodes have ended them.

    Args:
        library: reads the curves.
        members: of the sweep.
        settings: their members; each member by itself in a population.
        axis: of time.
        theme: of colours.
    """
    return _figure(returns_over_time(library, members, axis), settings, axis, theme, "best setting", [], {})


def best_member_figure(
    library: Library, members: Sequence[Entry], settings: Sequence[SettingReturns], axis: Axis, theme: Theme
) -> Figure:
    """Draw the return of the member that is the best at each moment, over all members' own curves.

    Args:
        library: reads the curves.
        members: of the sweep.
        settings: of the members, which name them; () in a population.
        axis: of time.
        theme: of colours.
    """
    returns = returns_over_time(library, members, axis)
    alone = [SettingReturns({"member": number}, (number,), ()) for number in returns.means]
    words = {number: f" ({setting_label(one.settings)})" for one in settings for number in one.members if one.settings}
    own = [(returns.moments, mean) for mean in returns.means.values()]
    return _figure(returns, alone, axis, theme, "best member", [behind("members", own, 6)] if own else [], words)


def _figure(
    returns: Returns,
    settings: Sequence[SettingReturns],
    axis: Axis,
    theme: Theme,
    name: str,
    others: list[Curve],
    about: Mapping[int, str],
) -> Figure:
    best = np.full(len(returns.moments), np.nan)
    abouts: list[str] = []
    for place in range(len(returns.moments)):
        winner = best_setting([one for one in (_then(one, returns, place) for one in settings) if one is not None])
        if winner is None:
            abouts.append("")
            continue
        best[place] = winner.mean
        named = setting_label(winner.settings) + (about.get(winner.members[0], "") if len(winner.members) == 1 else "")
        abouts.append(f"{printable(named, 200)}: {short(winner.mean)}, {_words(winner)}")
    if not returns.means:
        return message_figure(_TOO_EARLY if len(returns.moments) and returns.moments[-1] else NO_RETURN, theme)
    if not np.isfinite(best).any():
        return message_figure("settings of different games have no common best", theme)
    figure = line_figure(
        [*others, Curve(name, returns.moments, best, colour=1)], AXIS_TITLES[axis], METRIC_TITLES[RETURN], theme
    )
    figure["data"][-1] |= {
        "mode": "lines+markers",
        "line": figure["data"][-1]["line"] | {"shape": "hv"},
        "marker": {"size": 4},
        "customdata": [as_text(each) for each in abouts],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    figure["layout"]["showlegend"] = False
    return figure


def _then(one: SettingReturns, returns: Returns, place: int) -> SettingReturns | None:
    """Return a setting as it stood at a moment; None before all of its seeds have ended 20 episodes."""
    values = [float(returns.means[number][place]) for number in one.members if number in returns.means]
    if not values or not all(map(math.isfinite, values)):
        return None
    return dataclasses.replace(one, returns=tuple(values))


def _words(one: SettingReturns) -> str:
    episodes = f"the last {NUM_RETURNS} episodes"
    number = len(one.returns)
    return f"mean of {episodes}" if number == 1 else f"mean of {number} seeds, {episodes} of each"


def _at(series: Series, axis: Axis, moments: np.ndarray) -> np.ndarray:
    """Return a series' newest value at each moment; NaN before its first."""
    place = np.searchsorted(series.axes[axis], moments, side="right") - 1
    return np.where(place >= 0, series.values[np.maximum(place, 0)], np.nan)
