"""The page Watch: the newest video of every run, and on request the newest agent playing, step by step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from dash import ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from launch.dashboard.address import Address, Control, address_of, controls_store, remember_controls
from launch.dashboard.checked import one_of
from launch.dashboard.figures import Curve, Figure, Theme, bar_figure, line_figure, message_figure
from launch.dashboard.library import Library
from launch.dashboard.live import LiveBusyError, LiveError, LiveStoppedError, LiveView
from launch.dashboard.not_here import no_number, not_here, unknown
from launch.dashboard.pages.parts import ago, clock, labelled, panel, tile
from launch.formats import short
from launch.records.listing import Entry, find_videos, printable

_FILM_MS, _FILM_STEPS = 33, 15
"""At 30 steps a second, steps come 15 at a time, and the browser shows their pictures one by one."""
_SPEEDS = {_FILM_MS: "30 steps a second", 100: "10 steps a second", 250: "4 steps a second", 1000: "1 step a second"}
_SPEED = 100
_CONTROLS = (Control("live-run", "run", None), Control("live-speed", "speed", _SPEED))
_VIDEO = Control("evaluation-number", "video", None)
_STOPPED = "stopped"
_MOST_VIDEOS = 24
_REMEMBERED = 200


def layout(library: Library, address: Address) -> Any:
    """Return the page; its address may name the first run to show."""
    runs = [entry for entry in library.entries().values() if not entry.is_sweep and not entry.problem]
    playable = [entry for entry in runs if (entry.path / "checkpoints").is_dir()]
    asked = library.find(address.name)
    wanted = asked.key if asked else ""
    films = _films(asked) if asked is not None else []
    name = address.text("run") or address.name
    waiting = message_figure("")
    for axis in ("paper_bgcolor", "plot_bgcolor"):
        waiting["layout"][axis] = "rgba(0,0,0,0)"
    chosen, why = _choose(name, library.find(name), playable)
    missing = [
        *unknown(address, "speed", [str(ms) for ms in _SPEEDS]),
        *no_number(address, "video", len(films)),
    ]
    # The address names the run that plays, unless the page's own name does.
    controls = [
        Control(each.id, each.name, asked.name if each.name == "run" and asked else each.default) for each in _CONTROLS
    ]
    return html.Div(
        [
            html.H1("Watch"),
            not_here(missing),
            html.H2("The newest agent, live", className="heading"),
            html.Div(
                [
                    labelled(
                        "run",
                        dcc.Dropdown(
                            id="live-run",
                            options=[{"label": entry.name, "value": entry.name} for entry in playable],
                            value=chosen,
                            clearable=False,
                            placeholder="no run has a checkpoint yet",
                        ),
                        "wide",
                    ),
                    html.Button("Play", id="live-play", type="button", n_clicks=0),
                    html.Button("Pause", id="live-pause", type="button", n_clicks=0),
                    html.Button("One step", id="live-step", type="button", n_clicks=0),
                    html.Button("Stop", id="live-stop", type="button", n_clicks=0),
                    labelled(
                        "speed",
                        dcc.RadioItems(
                            id="live-speed",
                            options=[{"label": text, "value": ms} for ms, text in _SPEEDS.items()],
                            value=one_of(address.number("speed", _SPEED), tuple(_SPEEDS), _SPEED),
                            inline=True,
                        ),
                        "choice",
                    ),
                ],
                className="controls",
            ),
            html.P(why, id="live-said", className="quiet", role="status"),
            html.Div(
                [
                    html.Section(
                        [
                            html.Header([html.H2("Picture of the environment")]),
                            html.Div(html.Img(id="live-picture", alt=""), className="screen"),
                        ],
                        className="panel",
                    ),
                    html.Div(
                        [
                            html.Div(id="live-tiles", className="tiles"),
                            panel("Action probabilities, or mean and std", "live-actions", 190, figure=waiting),
                            panel("Value estimate and reward", "live-values", 190, figure=waiting),
                        ]
                    ),
                ],
                className="halves",
            ),
            *(_evaluations(asked, films, address) if asked is not None else []),
            html.H2("Newest evaluation videos", className="heading"),
            html.Div(_videos(library, wanted), id="videos", className="videos"),
            clock("live-clock", 100, is_stopped=True),
            dcc.Store(id="live-past", data=[]),
            dcc.Store(id="live-film"),
            dcc.Store(id="watch-seen"),
            dcc.Store(id="watch-key", data=wanted),
            controls_store("watch", controls, address),
            dcc.Store(id="watch-start", data={"run": chosen, "named": controls[0].default, "at": address.moment}),
            dcc.Store(id="watch-open"),
            clock("watch-clock", 2000),
        ]
    )


def register(app: Dash, library: Library, live: LiveView) -> None:
    """Add the page's callbacks."""
    remember_controls(app, "watch", _CONTROLS)
    remember_controls(app, "watch-video", [_VIDEO])

    @app.callback(
        Output("live-clock-ticks", "data-stopped"),
        Output("live-clock-ticks", "data-interval"),
        Output("live-past", "data"),
        Output("live-said", "children"),
        Input("live-play", "n_clicks"),
        Input("live-pause", "n_clicks"),
        Input("live-stop", "n_clicks"),
        Input("live-speed", "value"),
        State("live-run", "value"),
        State("live-clock-ticks", "data-stopped"),
        prevent_initial_call=True,
    )
    def control(_: Any, __: Any, ___: Any, speed: Any, key: Any, is_paused: Any) -> Any:
        interval = one_of(speed, tuple(_SPEEDS), _SPEED)
        interval = _FILM_MS * _FILM_STEPS if interval == _FILM_MS else interval
        asked = ctx.triggered_id
        if asked == "live-speed":
            return bool(is_paused), interval, no_update, no_update
        if asked == "live-pause":
            return True, interval, no_update, "paused; One step continues by one step"
        if asked == "live-stop":
            live.stop()
            return True, interval, no_update, _STOPPED
        entry = library.find(key)
        if entry is None:
            return True, interval, no_update, "choose a run that has a checkpoint"
        if live.playing == entry.key:
            return False, interval, no_update, no_update
        live.start(entry.key, entry.path)
        return False, interval, [], f"{entry.name}: its newest checkpoint is being loaded ..."

    @app.callback(
        Output("live-picture", "src"),
        Output("live-picture", "alt"),
        Output("live-tiles", "children"),
        Output("live-actions", "figure"),
        Output("live-values", "figure"),
        Output("live-film", "data"),
        Output("live-past", "data", allow_duplicate=True),
        Output("live-said", "children", allow_duplicate=True),
        Output("live-clock-ticks", "data-stopped", allow_duplicate=True),
        Input("live-clock", "data"),
        Input("live-step", "n_clicks"),
        State("live-run", "value"),
        State("live-speed", "value"),
        State("live-past", "data"),
        State("live-said", "children"),
        State("theme", "data"),
        prevent_initial_call=True,
    )
    def play(_: Any, __: Any, key: Any, speed: Any, past: Any, said: Any, theme: Any) -> Any:
        entry = library.find(key)
        if entry is None:
            raise PreventUpdate
        is_single = ctx.triggered_id == "live-step"
        number_of = _FILM_STEPS if speed == _FILM_MS and not is_single else 1
        if is_single and live.playing != entry.key:
            live.start(entry.key, entry.path)
        try:
            steps = live.steps(entry.key, number_of, 5.0 if is_single else 0.0)
        except LiveBusyError as error:
            raise PreventUpdate from error
        except LiveStoppedError:  # by this page, whose next step was asked for before, or by another
            return (*(no_update,) * 7, _STOPPED, True)
        except LiveError as error:
            return (*(no_update,) * 7, printable(f"{entry.name}: {error}", 400), True)
        if live.playing != entry.key:  # stopped meanwhile, and the page says so
            raise PreventUpdate
        colours: Theme = "dark" if theme == "dark" else "light"
        kept = [row for row in past if _is_row(row)] if isinstance(past, list) else []
        kept = [*kept, *([each["value"], each["learned_reward"]] for each in steps)][-_REMEMBERED:]
        seen = steps[-1]
        film = [f"data:image/png;base64,{each['png']}" for each in steps if each["png"]]
        picture = f"data:image/png;base64,{seen['png']}" if seen["png"] else ""
        drawn = "" if picture else " (this environment cannot be drawn)"
        words = f"{entry.name}: {seen['env']}, checkpoint of {seen['checkpoint_step']:,} env steps{drawn}"
        return (
            no_update if len(film) > 1 else picture,
            f"step {seen['step']} of episode {seen['episode']}",
            [
                tile("episode", str(seen["episode"]), f"step {seen['step']}"),
                _value_tile(seen["value"]),
                tile("reward", short(seen["reward"]), _learned_as(seen)),
                tile("return so far", short(seen["return"])),
            ],
            _actions(seen, colours),
            _values(kept, colours),
            {"pictures": film, "ms": _FILM_MS} if len(film) > 1 else None,
            kept,
            no_update if said == words else words,  # an answer that is late would replace "stopped"
            no_update,
        )

    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "film"), Input("live-film", "data")
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "openWatch"), Output("watch-open", "data"), Input("watch-start", "data")
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "evaluation"),
        Output("evaluation-video", "src"),
        Output("evaluation-name", "children"),
        Input("evaluation-number", "value"),
        State("evaluation-videos", "data"),
    )

    @app.callback(
        Output("videos", "children"),
        Output("watch-seen", "data"),
        Input("watch-clock", "data"),
        State("watch-seen", "data"),
        State("watch-key", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: Any, seen: Any, wanted: Any) -> Any:
        found = _newest_videos(library)
        state = str([(entry.key, name) for _, entry, name in found])
        # Without an update a video that plays does not start again.
        if seen is None or state == seen:
            return no_update, state
        return _videos(library, wanted if isinstance(wanted, str) else ""), state


def _choose(name: str, asked: Entry | None, playable: list[Entry]) -> tuple[str | None, str]:
    """Return the name of the run to play, and why it is not the run that was asked for, or ""."""
    if not name:
        return (playable[0].name if playable else None), ""
    if asked is None:
        return None, f"there is no run {printable(name)} here (any more): choose one"
    if asked.key not in {entry.key for entry in playable}:
        why = (
            "is a sweep: choose one of its members" if asked.is_sweep else "has no checkpoint yet, so nothing can play"
        )
        return None, f"{asked.name} {why}"
    return asked.name, ""


def _newest_videos(library: Library) -> list[tuple[float, Entry, str]]:
    found = []
    for entry in library.entries().values():
        videos = find_videos(entry)
        if videos:
            try:
                found.append((videos[0].stat().st_mtime, entry, videos[0].name))
            except OSError:
                continue  # it was just removed
    return sorted(found, key=lambda item: -item[0])


def _videos(library: Library, wanted: str) -> list[Any]:
    found = sorted(_newest_videos(library), key=lambda item: item[1].key != wanted)
    if not found:
        return [
            html.P(
                "no run has a video yet: --capture-video records evaluations, laser eval RUN_DIR --video a run's agent",
                className="quiet all",
            )
        ]
    shown: list[Any] = []
    for made_at, entry, name in found[:_MOST_VIDEOS]:
        source = f"/video?{urlencode({'run': entry.key, 'name': name})}"
        if name.lower().endswith(".gif"):
            picture: Any = html.Img(src=source, alt=printable(name))
        else:
            picture = html.Video(src=source, controls=True, muted=True, loop=True, preload="metadata")
        about = f"{printable(name)}, {ago(max(0.0, time.time() - made_at))}"
        shown.append(
            html.Figure([picture, html.Figcaption([dcc.Link(entry.name, href=address_of(entry)), html.Small(about)])])
        )
    if len(found) > _MOST_VIDEOS:
        left = len(found) - _MOST_VIDEOS
        shown.append(
            html.P(f"{left} more runs have videos; 'watch it' on a run's page shows its video first", className="quiet")
        )
    return shown


def _films(entry: Entry) -> list[list[str]]:
    """Return the address and the name of the video of every evaluation of a run, oldest first."""
    return [
        [f"/video?{urlencode({'run': entry.key, 'name': path.name})}", _moment_of(path)]
        for path in find_videos(entry)[::-1]
    ]


def _evaluations(entry: Entry, films: list[list[str]], address: Address) -> list[Any]:
    """Return the videos of all evaluations of a run with a slider; [] if it has fewer than two."""
    if len(films) < 2:
        return []
    slider = dcc.Slider(
        id="evaluation-number",
        min=1,
        max=len(films),
        step=1,
        value=min(max(1, address.number("video", len(films))), len(films)),
        marks={1: "first", len(films): "last"},
    )
    video = html.Video(id="evaluation-video", controls=True, muted=True, loop=True, preload="metadata")
    return [
        html.H2(f"All evaluations of {entry.name}", className="heading"),
        labelled("evaluation", slider, "wide"),
        html.Figure([video, html.Figcaption(id="evaluation-name")], className="evaluation"),
        dcc.Store(id="evaluation-videos", data=films),
        controls_store("watch-video", [Control(_VIDEO.id, _VIDEO.name, len(films))], address),
    ]


def _moment_of(path: Path) -> str:
    """Return when an evaluation was filmed, from its video's name."""
    number = path.stem.rpartition("-")[2]
    return f"at {int(number):,} env steps" if number.isdecimal() else printable(path.name)


def _is_row(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and all(isinstance(x, (int, float, type(None))) for x in row)


def _actions(seen: dict[str, Any], theme: Theme) -> Figure:
    if "probabilities" in seen:
        choices = seen["probabilities"]
        begins = np.cumsum([0, *map(len, choices)])
        names = [
            seen["action_names"][action] if len(choices) == 1 and seen["action_names"] else f"choice {choice}: {action}"
            for choice, chances in enumerate(choices)
            for action in range(len(chances))
        ]
        taken = [int(begin) + action for begin, action in zip(begins, seen["action"], strict=False)]
        return bar_figure(names, [chance for chances in choices for chance in chances], theme, chosen=taken)
    if "mean" not in seen:
        return message_figure("this policy has no distribution", theme)
    mean, places = np.array(seen["mean"]), np.arange(len(seen["mean"]))
    deviation = np.array(seen.get("std", np.zeros_like(mean)))
    figure = line_figure(
        [Curve("mean", places, mean), Curve("taken", places, np.array(seen["action"]), colour=1)],
        "component of the action",
        "",
        theme,
    )
    for trace in figure["data"]:
        trace["mode"] = "markers"
        trace["marker"] = {"size": 10}
    figure["data"][0]["error_y"] = {"type": "data", "array": deviation.tolist(), "visible": True}
    figure["layout"]["xaxis"] |= {"dtick": 1}
    return figure


def _value_tile(value: float | None) -> Any:
    if value is None:
        return tile("value estimate", "none", "the algorithm has none for a state alone")
    return tile("value estimate", short(value))


def _learned_as(seen: dict[str, Any]) -> str:
    """Return how a reward is scaled before it is learned from, if it is."""
    learned = seen["learned_reward"]
    return "" if learned == seen["reward"] or learned is None else f"learned as {short(learned)}"


def _values(past: list[list[float | None]], theme: Theme) -> Figure:
    steps = np.arange(-len(past) + 1, 1)
    value, reward = (np.array([np.nan if row[place] is None else row[place] for row in past]) for place in (0, 1))
    curves = [Curve("value estimate", steps, value)] if np.isfinite(value).any() else []
    curves.append(Curve("reward, as learned", steps, reward, colour=1))
    return line_figure(curves, "steps ago", "learned units", theme)
