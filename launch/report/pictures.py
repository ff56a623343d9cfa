"""Curves as PNG: lines in panels, and panels in rows and columns."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Theme:
    """The colours of a picture: of the paper, of text and axes, and of the lines."""

    paper: str
    ink: str
    lines: tuple[str, ...]


# Okabe and Ito's colours, which colour-blind readers can tell apart. Black cannot be seen on dark paper, nor their
# yellow on white; most panels have one line, the first, and their sky blue is brighter than their blue.
LIGHT = Theme(
    "#FFFFFF",
    "#000000",
    ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"),
)
DARK = Theme(  # the paper and the ink of a dark page
    "#12161C",
    "#D7DCE2",
    ("#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#0072B2", "#F0E442", "#999999"),
)
THEMES = (LIGHT, DARK)
_DASHES = ("-", "--", ":", "-.", (0, (9, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 4)), (0, (6, 2, 1, 2, 1, 2)))
NUM_STYLES = len(LIGHT.lines) * len(_DASHES)
"""Lines that differ in their colour or their dashes."""
_MOST_IN_AXES = 6  # more names would hide the curves
"""Labels that a legend inside the axes has room for; more of them stand below, where they hide nothing."""
_LEGEND_COLUMNS, _LEGEND_ROW_INCHES = 3, 0.19
_LEGEND: dict[str, Any] = {"fontsize": "x-small", "handlelength": 4.0, "frameon": False}
"""The look of a legend below the axes."""
_TITLE_INCHES = 0.42
"""Height of the marks and the title of an x axis."""
_LONG_LABEL = 28
"""Letters of a label that leaves no room for another beside it."""
_MOST_POINTS = 2000
_LONG_NUMBER = 10_000
"""The least number on an x axis whose marks are 20k and 1.5M, not 20000 and 1.5 beside 1e6."""


@dataclass(frozen=True)
class Line:
    """A line of a panel.

    Args:
        label: in the legend; lines with the same label share a colour and a legend entry.
        points: (x, y).
        is_steps: a value holds until the next point.
        band: (low, high) at each point, drawn as a pale band around the line; () for none.
        is_points: points are not joined.
    """

    label: str
    points: Sequence[tuple[float, float]]
    is_steps: bool = False
    band: Sequence[tuple[float, float]] = ()
    is_points: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `goal` is drawn as a dotted horizontal line, `title` above the axes.

    With `is_log` the y axis is logarithmic, and with `is_log_x` the x axis; values that are not above 0 are left out.
    `x_labels` name x = 0, 1, ... on an axis that is not one of numbers.
    """

    x_title: str
    y_title: str
    lines: Sequence[Line] = field(default_factory=tuple)
    goal: float | None = None
    title: str = ""
    is_log: bool = False
    is_log_x: bool = False
    x_labels: Sequence[str] = ()


def draw(
    panels: Sequence[Panel],
    title: str = "",
    num_columns: int | None = None,
    shares_y: bool | None = None,
    theme: Theme = LIGHT,
    labels: Sequence[str] = (),
    note: str = "",
) -> bytes:
    """Return a PNG of the panels. Titles and labels may contain any text. Call it from one thread at a time.

    Args:
        panels: from left to right, row by row.
        title: above all panels.
        num_columns: panels side by side; None: all.
        shares_y: all panels have the same y axis; None: if they all have the same title of y.
        theme: colours.
        labels: of the lines of all panels, in the order of their colours; one legend stands below all panels. (): each
            panel has colours and a legend of its own.
        note: the file's comment, which is not to be seen.
    """
    num_columns = len(panels) if num_columns is None else num_columns
    num_rows = -(-len(panels) // num_columns)
    below = max(_legend_rows(panel) for panel in panels) * _LEGEND_ROW_INCHES * num_rows
    drawn = [label for label in labels if any(label in _labels(panel) for panel in panels)]
    columns = num_columns * _legend_columns(drawn)
    if labels:
        below = -(-len(drawn) // columns) * _LEGEND_ROW_INCHES
    size = 1.0 + 5.0 * num_columns, 3.6 * num_rows + below
    share = len({panel.y_title for panel in panels}) == 1 if shares_y is None else shares_y
    with _sheet(size, theme, note) as (figure, picture):
        grid = figure.subplots(num_rows, num_columns, sharey=share, squeeze=False).flat
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(grid, panels, strict=False):
            _draw_panel(axes, panel, theme, labels)
        if title:
            figure.suptitle(_plain(title))
        if drawn:
            found = [axes.get_legend_handles_labels() for axes in figure.axes]
            handles = {label: handle for pair in reversed(found) for handle, label in zip(*pair, strict=True)}
            entries = [handles[_plain(label)] for label in drawn], [_plain(label) for label in drawn]
            look = _LEGEND | ({"fontsize": "medium"} if len(drawn) <= columns else {})
            figure.legend(*entries, loc="outside lower center", ncols=columns, **look)
    return picture.getvalue()


def draw_lineage(
    ends: Mapping[int, float],
    copies: Sequence[tuple[float, int, int]],
    path: Sequence[tuple[float, float, int]],
    theme: Theme = LIGHT,
) -> bytes:
    """Return a PNG of a population's lineage: a lane for each member, an arrow for each copy.

    Call it from one thread at a time.

    Args:
        ends: env steps of each member.
        copies: (env steps, copied member, copying member).
        path: (from, to, member) pieces of one member's ancestry, drawn thick.
        theme: colours.
    """
    lanes = {member: lane for lane, member in enumerate(sorted(ends))}
    with _sheet((9.0, 1.2 + 0.4 * len(lanes)), theme) as (figure, picture):
        axes = figure.subplots()
        for member, lane in lanes.items():
            axes.plot([0.0, ends[member]], [lane, lane], color="grey", linewidth=1, alpha=0.6)
        for begin, end, member in path:
            if member in lanes:
                axes.plot([begin, end], [lanes[member]] * 2, color=theme.lines[4], linewidth=5, alpha=0.7)
        for at, model, member in copies:
            if model in lanes and member in lanes:
                arrow = {"arrowstyle": "->", "color": theme.lines[1]}
                axes.annotate("", (at, lanes[member]), (at, lanes[model]), arrowprops=arrow)
        axes.set_yticks(list(lanes.values()), [f"member {member}" for member in lanes])
        axes.invert_yaxis()
        axes.set_xlabel("env steps")
    return picture.getvalue()


@contextmanager
def _sheet(size: tuple[float, float], theme: Theme, note: str = "") -> Iterator[tuple[Any, io.BytesIO]]:
    """Yield an empty figure in a theme's colours, and the file that holds it as PNG after the block.

    Args:
        size: width and height in inches.
        theme: colours. They are matplotlib's global settings for as long as the block lasts.
        note: the file's comment.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    papers = ("figure.facecolor", "axes.facecolor")
    colours: dict[Any, str] = dict.fromkeys(inked, theme.ink) | dict.fromkeys(papers, theme.paper)
    with rc_context(colours):
        # Without pyplot there is no window, and no global list of figures that must be closed.
        figure, picture = Figure(figsize=size, layout="constrained"), io.BytesIO()
        canvas: Any = FigureCanvasAgg(figure)
        yield figure, picture
        canvas.print_png(picture, metadata={"Comment": note} if note else None)


def _draw_panel(axes: Any, panel: Panel, theme: Theme, labels: Sequence[str] = ()) -> None:
    has_legend, labels = not labels, labels or _labels(panel)
    seen: set[str] = set()
    for line in panel.lines:
        points, band = thin(line.points), thin(line.band)
        colour, dashes = style(labels.index(line.label), theme)
        if band:
            x = [x for x, _ in points]
            axes.fill_between(x, [low for low, _ in band], [high for _, high in band], color=colour, alpha=0.15, lw=0)
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=colour,
            linestyle="" if line.is_points else dashes,
            label=None if line.label in seen else _plain(line.label),
            linewidth=1.3,
            drawstyle="steps-post" if line.is_steps else "default",
            marker="." if line.is_points or len(points) == 1 else None,
        )
        seen.add(line.label)
    if panel.is_log and any(y > 0.0 for line in panel.lines for _, y in line.points):
        axes.set_yscale("log")
    if panel.x_labels:
        axes.set_xticks(range(len(panel.x_labels)), [_plain(label) for label in panel.x_labels])
    if panel.is_log_x and any(x > 0.0 for line in panel.lines for x, _ in line.points):
        axes.set_xscale("log")
    if not panel.x_labels and any(abs(x) >= _LONG_NUMBER for line in panel.lines for x, _ in line.points):
        axes.xaxis.set_major_formatter(lambda x, _: short_number(x))
        if panel.is_log_x:  # marks between the decades: more of them would touch
            axes.xaxis.set_minor_formatter(lambda x, _: short_number(x) if f"{x:e}"[0] in "25" else "")
    if panel.goal is not None:
        axes.axhline(panel.goal, color="grey", linestyle=":", linewidth=1)
    if panel.title:
        axes.set_title(_plain(panel.title))
    axes.set_xlabel(_plain(panel.x_title))
    axes.set_ylabel(_plain(panel.y_title))
    axes.grid(alpha=0.3)
    if not has_legend:
        return
    if _legend_rows(panel):
        from matplotlib.transforms import ScaledTranslation

        below = axes.transAxes + ScaledTranslation(0.0, -_TITLE_INCHES, axes.figure.dpi_scale_trans)
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": below}
        axes.legend(ncols=_legend_columns(labels), **_LEGEND, **place)
    elif any(labels):
        axes.legend(fontsize="small")


def style(number: int, theme: Theme = LIGHT) -> tuple[str, Any]:
    """Return the colour and the dashes of a line by its number; the first `NUM_STYLES` pairs are different."""
    return theme.lines[number % len(theme.lines)], _DASHES[number // len(theme.lines) % len(_DASHES)]


def _labels(panel: Panel) -> list[str]:
    return list(dict.fromkeys(line.label for line in panel.lines))


def _legend_rows(panel: Panel) -> int:
    """Return the rows of the legend below the axes; 0: it has room inside."""
    number = len(list(filter(None, _labels(panel))))
    return -(-number // _legend_columns(_labels(panel))) if number > _MOST_IN_AXES else 0


def _legend_columns(labels: Sequence[str]) -> int:
    return 1 if max(map(len, labels), default=0) > _LONG_LABEL else _LEGEND_COLUMNS


def short_number(x: float) -> str:
    """Return a number of an axis: thousands end with k, and millions with M."""
    size, unit = next(((size, unit) for size, unit in ((1e6, "M"), (1e3, "k")) if abs(x) >= size), (1.0, ""))
    return f"{x / size:g}{unit}"


def thin(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return at most about 2,000 points, including the last: more than a picture is wide in pixels."""
    step = -(-len(points) // _MOST_POINTS)
    if step <= 1:
        return points
    places = list(range(0, len(points), step))
    last = len(points) - 1
    return [points[place] for place in (places if places[-1] == last else [*places, last])]


def _plain(text: str) -> str:
    """Return text that matplotlib does not treat as a formula, and does not leave out of the legend."""
    text = text.replace("$", r"\$")
    return " " + text if text.startswith("_") else text
