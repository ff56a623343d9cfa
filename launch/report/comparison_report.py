"""The report that compares runs: their scores, their curves on the same axes, and the settings in which they differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from launch.errors import NothingToResumeError
from launch.evaluation.settings_compared import compare_settings
from launch.formats import short
from launch.recording.metric_panels import PANELS, Panel, names_of
from launch.recording.progress import duration
from launch.report import pictures
from launch.report.page import Page
from launch.report.recorded import Recorded

_LEFT_OUT = ("seed", "run-dir", "name", "tags", "quiet", "json", "resume")


def write_comparison(paths: Sequence[Path]) -> tuple[Page, dict[str, bytes]]:
    """Return the page and the pictures by file name.

    Raises:
        NothingToResumeError: a directory is no run, or a sweep.
        OutputError: a `metrics.db` is missing or damaged.
    """
    runs = {name: Recorded(path) for name, path in zip(_names(paths), paths, strict=True)}
    for recorded in runs.values():
        if "sweep" in recorded.record:
            remedy = "name its members, members/N, or the sweep alone"
            raise NothingToResumeError("report", f"{recorded.path} is a sweep, and runs are compared", remedy)
    page, files = Page(f"Comparison of {', '.join(runs)}"), {}
    by_env: dict[str, dict[str, Recorded]] = {}
    for name, recorded in runs.items():
        by_env.setdefault(recorded.config.env, {})[name] = recorded
    page.paragraph(f"{len(runs)} runs on {', '.join(by_env)}.")
    page.heading("Scores")
    page.table(
        ("run", "mean return", "95 % interval over episodes", "env steps", "training time", "algorithm", "seed"),
        [_row(name, recorded) for name, recorded in runs.items()],
    )
    _add_seeds(page, by_env)
    page.heading("Curves")
    for env, those in by_env.items():
        for panel in (panel for panel in PANELS if panel.report):
            lines = _lines(panel, those)
            if lines:
                title = panel.title + (f", {env}" if len(by_env) > 1 else "")
                drawn = [pictures.Panel("env steps", panel.y_title, lines)]
                light, dark = (pictures.draw(drawn, title, theme=theme) for theme in pictures.THEMES)
                place = list(by_env).index(env)
                files[f"{panel.report}{f'-{place}' if place else ''}.png"] = light
                page.picture(light, f"{title}: {', '.join(those)}", dark)
    if not files:
        page.paragraph("No recorded curve can be drawn.")
    _add_differences(page, runs)
    page.heading("To repeat them")
    page.code("\n".join(recorded.repeat for recorded in runs.values()))
    return page, files


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that tell them apart."""
    parts = [path.resolve().parts for path in paths]
    longest = max(map(len, parts))
    for length in range(1, longest + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    raise NothingToResumeError("report", "a run is named twice", "name different runs")


def _row(name: str, recorded: Recorded) -> Sequence[str]:
    end, score, newest = recorded.end, recorded.mean_return, recorded.newest_returns
    interval = newest[0].interval if len(newest) == 1 else None
    return (
        name,
        short(score) if math.isfinite(score) else "none",
        "" if interval is None else " to ".join(map(short, interval)),
        f"{end.env_steps:,}" if end else "0",
        duration(end.seconds) if end else "",
        recorded.config.algorithm.name,
        str(recorded.config.seed),
    )


def _add_seeds(page: Page, by_env: dict[str, dict[str, Recorded]]) -> None:
    """Add the mean over the runs that differ only in their seed, if there are such runs."""
    for env, those in by_env.items():
        differing = _differing(list(those.values()))
        compared = compare_settings(
            (place, {key: recorded.by_key.get(key, "") for key in differing}, recorded.mean_return)
            for place, recorded in enumerate(those.values())
        )
        if not any(len(one.returns) > 1 for one in compared):
            continue
        page.heading("Over seeds" + (f", {env}" if len(by_env) > 1 else ""))
        page.table(("settings", "result"), [(one.name, one.words(short)) for one in compared])


def _lines(panel: Panel, runs: dict[str, Recorded]) -> list[pictures.Line]:
    """Return a line for each run: the first that the panel has."""
    found = []
    for name, recorded in runs.items():
        own = panel.of_run(recorded.latest.values)
        series = recorded.series(names_of([own]))
        first = next((line for line in own.chosen(series) if line.kind == "value" and not line.is_faint), None)
        if first is not None:
            curve = series[first.name]
            points = list(zip(curve.axes["env_steps"].tolist(), curve.values.tolist(), strict=True))
            found.append(pictures.Line(name, points))
    return found


def _add_differences(page: Page, runs: dict[str, Recorded]) -> None:
    differing = _differing(list(runs.values()))
    page.heading("The runs differ in")
    if not differing:
        page.paragraph("Nothing but their seeds.")
        return
    page.table(
        ("key", *runs), [(key, *(recorded.by_key.get(key, "none") for recorded in runs.values())) for key in differing]
    )


def _differing(runs: Sequence[Recorded]) -> list[str]:
    keys = dict.fromkeys(key for recorded in runs for key in recorded.by_key if key not in _LEFT_OUT)
    return [key for key in keys if len({recorded.by_key.get(key) for recorded in runs}) > 1]
