"""Figures of a shared replay: which member learned from whose experience, and how this changed over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from launch.dashboard.figures import Curve, Figure, Theme, heat_figure, line_figure, message_figure
from launch.dashboard.library import Library
from launch.dashboard.panels import AXIS_TITLES
from launch.records.exchange import COUNTS
from launch.records.exchange_reader import Course
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
ABOUT = (
    "row: who learns; column: who made the experience; more than 64 members are put together by setting, and more than "
    "64 settings by ranges of the setting with the most values"
)
ABOUT_COURSE = (
    "the map's row of the chosen member over time: a curve for each maker, of the steps drawn between two points; "
    "of many makers those drawn most have a curve each"
)
_UNRECORDED = "the algorithms of these members do not record it"
_NOTHING = "no member has drawn another member's experience yet"
_SHARES = ("share", "accepted")
_NUM_POINTS = 200
_MOST_CURVES = 9


def exchange_figure(library: Library, groups: Mapping[str, list[Entry]], what: str, theme: Theme) -> Figure:
    """Draw a map of readers and makers.

    Args:
        library: reads the counts.
        groups: the members of each row and column, by its name.
        what: one of `EXCHANGES`.
        theme: of colours.
    """
    sums, steps = _read_counts(library, groups)
    below = np.sum(steps["steps"], axis=1, keepdims=True) if what == "share" else steps[what]
    values = _ratio(sums[_count(what)], below)
    if not np.isfinite(values).any():
        return message_figure(_UNRECORDED if np.sum(steps["steps"]) > 0 else _NOTHING, theme)
    names = list(groups)
    return heat_figure(values, names, names, ("made by", "learned by"), theme, share=what in _SHARES)


def course_figure(
    library: Library, reader: Entry | None, groups: Mapping[str, list[Entry]], what: str, axis: Axis, theme: Theme
) -> Figure:
    """Draw the map's row of a member over time: its shares, or its means, of the steps drawn between two points.

    Args:
        library: reads the counts.
        reader: the member that learns.
        groups: the members of each curve, by its name.
        what: one of `EXCHANGES`.
        axis: of time.
        theme: of colours.
    """
    makers = {group: [member_number(member) for member in members] for group, members in groups.items()}
    course = library.course(reader, _NUM_POINTS) if reader is not None else None
    if course is None or not course.makers:
        return message_figure(_NOTHING, theme)
    if _count(what) not in course.counts:
        return message_figure(_UNRECORDED, theme)
    steps = {group: _drawn(course, each, "steps") for group, each in makers.items()}
    sums = {group: _drawn(course, each, _count(what)) for group, each in makers.items()}
    whole = np.sum(list(steps.values()), axis=0)
    curves = []
    for name, together in _most_drawn(steps).items():
        above, below = (np.sum([counts[group] for group in together], axis=0) for counts in (sums, steps))
        if what == "share":
            below = whole
        at = below > 0
        curves.append(Curve(name, course.axes[axis][at], above[at] / below[at]))
    return line_figure(
        curves,
        AXIS_TITLES[axis],
        EXCHANGES[what],
        theme,
        y_range=(0.0, 1.0) if what in _SHARES else None,
        from_zero=what not in _SHARES,
        stacked=what == "share",
    )


def _drawn(course: Course, makers: list[int], count: str) -> np.ndarray:
    """Return a count of these makers in each span, float64 [N]."""
    columns = [place for place, maker in enumerate(course.makers) if maker in makers]
    # Below 0 where a learner died and its last updates were lost.
    drawn: np.ndarray = course.counts[count][:, columns].clip(min=0.0).sum(1)
    return drawn


def _most_drawn(steps: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """Return the groups of each curve, by its name: those drawn most alone, the rest together. A legend has few lines.

    Args:
        steps: drawn before each point, by group, [N].
    """
    if len(steps) <= _MOST_CURVES:
        return {group: [group] for group in steps}
    order = sorted(steps, key=lambda group: -float(np.sum(steps[group])))
    first = set(order[: _MOST_CURVES - 1])
    alone = {group: [group] for group in steps if group in first}
    return alone | {f"the other {len(steps) - len(first)}": order[_MOST_CURVES - 1 :]}


def _read_counts(
    library: Library, groups: Mapping[str, list[Entry]]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return each count's sums, and the steps over which it was summed, float64 [readers, makers].

    Members of different algorithms record different counts, so each count has steps of its own.
    """
    column = {member_number(member): place for place, members in enumerate(groups.values()) for member in members}
    sums, steps = ({name: np.zeros((len(groups), len(groups))) for name in COUNTS} for _ in range(2))
    for row, members in enumerate(groups.values()):
        for member in members:
            for maker, counts in library.exchange(member).items():
                for name, value in counts.items() if maker in column else ():
                    sums[name][row, column[maker]] += value
                    steps[name][row, column[maker]] += counts.get("steps", 0.0)
    return sums, steps


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return above / below; NaN where below is 0."""
    found = np.full_like(above, np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return found


def _count(what: str) -> str:
    """Return the count above the fraction that a number of `EXCHANGES` is."""
    return "steps" if what == "share" else what
