"""Parts of pages: panels with their downloads, tables, controls. Text is always inserted as text, never as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from launch.dashboard.address import Address
from launch.dashboard.checked import one_of
from launch.dashboard.figures import Figure
from launch.dashboard.pages.help import help_button
from launch.dashboard.panels import AXIS_TITLES, SCALES
from launch.recording.progress import duration
from launch.records.series import AXES

GRAPH_CONFIG: Any = {
    "displaylogo": False,
    # Dragging zooms and a double click zooms out; the mode bar would cover the legend. Each panel has save buttons.
    "displayModeBar": False,
    "doubleClickDelay": 400,
}

KEYS = "+ and - zoom, left and right move, 0 shows all."
"""Effects of the keys on a figure that has the focus; see assets/keys.js."""

MOST_SMOOTHING = 50
"""Most neighbours on each side of a point that a smoothed curve takes into account."""

CLOCK_MS = 1500
"""Milliseconds between a page's requests for new data."""


def clock(name: str, interval_ms: int = CLOCK_MS, *, rests: bool = False, is_stopped: bool = False) -> html.Div:
    """Return a clock that triggers a callback repeatedly, by the callback's input `Input(name, "data")`.

    The clock stops while a response is pending, since Dash drops a response after a newer request, and while the page
    is hidden. A clock with `rests` (for curves) pauses after long drawing, to leave the cores to training (see `tick`
    in assets/dashboard.js). The properties `data-stopped` and `data-interval` of `NAME-ticks` may be changed.

    Args:
        name: of the clock; ends in "-clock".
        interval_ms: between two requests.
        rests: send fewer requests if drawing takes long.
        is_stopped: do not run yet.
    """
    how: dict[str, Any] = {"data-interval": interval_ms, "data-rests": rests, "data-stopped": is_stopped}
    return html.Div(dcc.Store(id=name), id=f"{name}-ticks", className="clock", **how)


def panel(
    title: str,
    graph_id: Any,
    height_px: int = 240,
    about: Sequence[str] = (),
    figure: Figure | None = None,
    note: str = "",
    facet: str = "",
    tools: Sequence[Any] = (),
    keys: str = KEYS,
) -> html.Section:
    """Return a figure under its title, with an explanation behind a "?" and buttons that save what it shows.

    Args:
        title: above the figure.
        graph_id: of the figure.
        height_px: of the figure, in pixels.
        about: paragraphs of the explanation; (): there is none.
        figure: by default empty.
        note: a line below the title, about what the user can do; "": none.
        facet: name of the figure among those that are zoomed together.
        tools: further buttons, before those that save.
        keys: effects of the keys on the figure, for those who hear the page.
    """
    kinds: list[dict[str, Any]] = [{"data-save": kind, "children": kind.upper()} for kind in ("png", "svg", "csv")]
    buttons = [
        html.Button(type="button", className="save", title=f"save as {kind['children']}", **kind) for kind in kinds
    ]
    spoken: dict[str, Any] = {"aria-label": title, "data-facet": facet}
    named: dict[str, Any] = {"aria-label": f"{title}, figure: {keys}"}
    return html.Section(
        [
            html.Header(
                [
                    html.Div([html.H2(title), *help_button(title, about)], className="title"),
                    html.Div([*tools, *buttons], className="saves"),
                ]
            ),
            *([html.Small(note, role="status")] if note else []),
            html.Div(
                dcc.Graph(
                    id=graph_id,
                    figure=figure or {"data": [], "layout": {"xaxis": {"visible": False}, "yaxis": {"visible": False}}},
                    config=GRAPH_CONFIG,
                    responsive=True,
                    style={"height": f"{height_px}px"},
                ),
                className="figure",
                tabIndex=0,
                role="group",
                **named,
            ),
        ],
        className="panel",
        **spoken,
    )


def linked(content: Sequence[Any], axis: str, class_name: str = "") -> html.Div:
    """Return figures over the x axis of the page, all of which have one crosshair and one zoom (see assets/figures.js).

    Args:
        content: parts with the figures, each in a `panel` with a `facet`.
        axis: of x in the address; the page's callback "unzoom" follows its control.
        class_name: further classes.
    """
    marks: dict[str, Any] = {"data-axis": one_of(axis, AXES, "env_steps")}
    return html.Div(list(content), className=f"linked {class_name}", **marks)


def later(name: str, content: Sequence[Any], height_px: int) -> html.Div:
    """Return parts of a page that are made once they are nearly in view (see assets/later.js).

    A page with `make_later` shows what is seen first without waiting for figures that are further down. No callback may
    have an output in these parts and another one elsewhere.

    Args:
        name: of the parts.
        content: the parts.
        height_px: about their height in pixels, which the page keeps free for them.
    """
    marks: dict[str, Any] = {"data-later": name}
    return html.Div(
        [
            html.Div(id=f"later-{name}", style={"minHeight": f"{height_px}px"}, **marks),
            dcc.Store(id=f"near-{name}"),
            dcc.Store(id=f"kept-{name}", data=list(content)),
        ]
    )


def make_later(app: Dash, name: str) -> None:
    """Let the browser make the parts of `later` of this name once they are nearly in view."""
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "make"),
        Output(f"later-{name}", "children"),
        Input(f"near-{name}", "data"),
        State(f"kept-{name}", "data"),
        prevent_initial_call=True,
    )


def section(name: str, title: Any, content: Sequence[Any], address: Address, *, opens: bool = True) -> html.Details:
    """Return a section that the user opens and shuts; the address says whether it is open.

    Args:
        name: in the address.
        title: of the section.
        content: its parts.
        address: of the page.
        opens: whether it is open where the address says nothing.
    """
    marks: dict[str, Any] = {"data-section": name, "data-opens": "true" if opens else "false"}
    return html.Details([html.Summary(title), *content], open=address.is_open(name, opens), **marks)


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], empty: str = "", class_name: str = "") -> Any:
    """Return rows of text as a table, or the text `empty` if there are no rows."""
    body = [html.Tr([html.Td(cell) for cell in row]) for row in rows]
    if not body:
        return html.P(empty, className="quiet")
    return html.Table(
        [html.Thead(html.Tr([html.Th(cell, scope="col") for cell in head])), html.Tbody(body)], className=class_name
    )


def words_of(sentences: Sequence[str]) -> list[Any]:
    """Return a paragraph for each finding."""
    return [html.P(sentence, className="finding") for sentence in sentences]


def axis_choice(name: str, value: str = "env_steps", *, has_frames: bool = True) -> Any:
    """Return the control for the x axis.

    Args:
        name: of the control.
        value: of the address.
        has_frames: whether frames differ from env steps; else they are offered only where the address asks for them.
    """
    words = AXIS_TITLES | {"seconds": "seconds"}
    offered = [axis for axis in AXIS_TITLES if axis != "frames" or has_frames or value == "frames"]
    options = [{"label": words[axis], "value": axis} for axis in offered]
    chosen = one_of(value, AXES, "env_steps")
    return labelled("axis", dcc.RadioItems(id=name, options=options, value=chosen, inline=True), "choice")


def scale_choice(name: str, value: str = "all") -> Any:
    """Return the control for the y axes."""
    options = [{"label": words, "value": scale} for scale, words in SCALES.items()]
    chosen = one_of(value, tuple(SCALES), "all")
    return labelled("y axes", dcc.RadioItems(id=name, options=options, value=chosen, inline=True), "choice")


def smoothing_choice(name: str, value: int = 0) -> Any:
    """Return the control for the number of neighbours to average."""
    slider = dcc.Slider(
        id=name,
        min=0,
        max=MOST_SMOOTHING,
        step=1,
        value=min(value, MOST_SMOOTHING),
        marks={0: "0", 25: "25", 50: "50"},
        updatemode="mouseup",
    )
    return labelled("smoothing", slider, "slider")


def labelled(text: str, control: Any, class_name: str = "") -> html.Div:
    """Return a control under its name."""
    return html.Div([html.Span(text, className="label"), control], className=f"control {class_name}")


def tile(name: str, value: str, about: str = "") -> html.Div:
    """Return a tile with one number and its name."""
    return html.Div([html.Span(name, className="label"), html.Strong(value), html.Small(about)], className="tile")


def ago(seconds: float | None) -> str:
    """Return an age in words."""
    if seconds is None:
        return ""
    return "now" if seconds < 5 else f"{duration(seconds)} ago"
