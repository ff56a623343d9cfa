"""Figures of a shared replay: which member learned from whose experience, and how this changed over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from launch.dashboard.figures import Curve, Figure, Theme, heat_figure, line_figure, message_figure
from launch.dashboard.library import Library
from launch.dashboard.panels import AXIS_TITLES
from launch.records.curves import carried
from launch.records.listing import Entry, member_number
from launch.records.series import Axis

EXCHANGES = {
    "share": "share of the steps drawn",
    "accepted": "accepted share of the steps drawn",
    "abs_log_rho": "mean |log pi - log mu|, nats",
    "kl": "mean KL(pi || implied policy), nats",
    "lag": "mean lag, parameter versions of the maker",
}
"""Titles of the numbers that the map can show, by name."""
MOST_MEMBERS = 64
"""Larger sweeps are shown by setting."""
ABOUT = "row: who learns; column: who made the experience"
ABOUT_COURSE = "the steps that the chosen member drew, by the member that made them, as shares of all that it drew"
_UNRECORDED = "the algorithms of these members do not record it"
_NOTHING = "no member has drawn another member's experience yet"
_COUNTS = ("steps", "accepted", "abs_log_rho", "kl", "lag")
_NUM_POINTS = 200
_MOST_AREAS = 9


def exchange_figure(library: Library, groups: Mapping[str, list[Entry]], what: str, theme: Theme) -> Figure:
    """Draw a map of readers and makers.

    Args:
        library: reads the counts.
        groups: the members of each row and column, by its name.
        what: one of `EXCHANGES`.
        theme: of colours.
    """
    sums, steps = _read_counts(library, groups)
    if what == "share":
        values = _ratio(steps["steps"], np.sum(steps["steps"], axis=1, keepdims=True))
    else:
        values = _ratio(sums[what], steps[what])
    if not np.isfinite(values).any():
        return message_figure(_UNRECORDED if np.sum(steps["steps"]) > 0 else _NOTHING, theme)
    names = list(groups)
    return heat_figure(values, names, names, ("made by", "learned by"), theme, share=what in ("share", "accepted"))


def course_figure(
    library: Library, reader: Entry | None, groups: Mapping[str, list[Entry]], axis: Axis, theme: Theme
) -> Figure:
    """Draw whose experience a member learned from over time, as shares of its steps between two points.

    Args:
        library: reads the counts.
        reader: the member that learns.
        groups: the members of each area, by its name.
        axis: of time.
        theme: of colours.
    """
    names = {maker: _key(maker, "steps") for members in groups.values() for maker in map(member_number, members)}
    series = library.series(reader, list(names.values()), _NUM_POINTS) if reader is not None else {}
    if not series:
        return message_figure(_NOTHING, theme)
    longest = max(series.values(), key=len)
    steps = {
        group: np.sum(
            [
                np.nan_to_num(carried(series[names[maker]], longest.ticks))
                for maker in map(member_number, members)
                if names[maker] in series
            ]
            or [np.zeros(len(longest))],
            axis=0,
        )
        for group, members in groups.items()
    }
    growth = {group: np.diff(values, prepend=0.0).clip(min=0.0) for group, values in steps.items()}
    whole = np.sum(list(growth.values()), axis=0)
    at = whole > 0
    x = longest.axes[axis][at]
    growth = _largest(growth)
    curves = [Curve(group, x, values[at] / whole[at]) for group, values in growth.items()]
    return line_figure(curves, AXIS_TITLES[axis], "share of the steps drawn", theme, y_range=(0.0, 1.0), stacked=True)


def _largest(growth: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the areas that are the largest overall, in their order, and all others as one: a legend has few lines."""
    if len(growth) <= _MOST_AREAS:
        return dict(growth)
    order = sorted(growth, key=lambda name: -float(np.sum(growth[name])))
    first = set(order[: _MOST_AREAS - 1])
    others = np.sum([growth[name] for name in order[_MOST_AREAS - 1 :]], axis=0)
    return {name: values for name, values in growth.items() if name in first} | {
        f"the other {len(growth) - len(first)}": others
    }


def _read_counts(
    library: Library, groups: Mapping[str, list[Entry]]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return each count's sums, and the steps over which it was summed, float64 [readers, makers].

    Members of different algorithms record different counts, so each count has steps of its own.
    """
    column = {member_number(member): place for place, members in enumerate(groups.values()) for member in members}
    sums, steps = ({name: np.zeros((len(groups), len(groups))) for name in _COUNTS} for _ in range(2))
    for row, members in enumerate(groups.values()):
        for member in members:
            values = library.summary(member).latest.values
            for maker, place in column.items():
                drawn = values.get(_key(maker, "steps"), 0.0)
                for name in _COUNTS:
                    value = values.get(_key(maker, name))
                    if value is not None:
                        sums[name][row, place] += value
                        steps[name][row, place] += drawn
    return sums, steps


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return above / below; NaN where below is 0."""
    found = np.full_like(above, np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return found


def _key(maker: int, count: str) -> str:
    return f"totals/learned_from/{maker}/{count}"
