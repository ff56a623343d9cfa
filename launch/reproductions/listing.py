"""The text of `laser reproduce list`: what each figure shows, its commands, its cost, and what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from launch.reproductions.catalogue import PAPERS
from launch.reproductions.figure import Figure
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.plan import Run, make_plan
from launch.reproductions.speeds import hours_of

_WIDTH = 118


def cost_of(runs: list[Run]) -> str:
    """Return env steps and hours of runs, one after the other."""
    env_steps = sum(run.env_steps for run in runs)
    by_preset: dict[str, int] = {}
    for run in runs:
        by_preset[run.config.preset] = by_preset.get(run.config.preset, 0) + run.env_steps
    hours, machines, unmeasured = hours_of(by_preset)
    words = f"{_large(env_steps)} env steps"
    if machines:
        words += f"; about {_large(hours)} hours on {' and '.join(machines)}"
    if unmeasured:
        words += f"{', without those' if machines else '; speed not measured'} of {', '.join(unmeasured)}"
        words += ", whose speed is not measured" if machines else ""
    return words


def describe(figure: Figure) -> Iterator[str]:
    """Yield the lines of a figure."""
    yield f"{figure.name}: {figure.title}"
    yield from _wrapped(figure.shows)
    if figure.nothing:
        yield from _wrapped(f"nothing to run: {figure.nothing}")
    if figure.has_runs:
        full, small = make_plan(figure, ReproduceOptions()), make_plan(figure, ReproduceOptions(small=True))
        owner = f" (those of {figure.runs_of})" if figure.runs_of else ""
        num_games = len({run.game for run in full})
        count = f"{len(full)} = {len(figure.arms)} arms x {num_games} games x {full[-1].seed} seeds"
        yield from _wrapped(f"runs{owner}: {count}; {cost_of(full)}")
        yield from _wrapped(f"with --small: {len(small)} runs, {cost_of(small)}")
        yield from _wrapped(f"for example: {full[0]}")
    for line in figure.missing:
        yield from _wrapped(f"not here: {line}")


def as_data(figure: Figure) -> dict[str, Any]:
    """Return what `laser reproduce list` says of a figure, for JSON: its runs and env steps whole and with --small."""
    plans = {"whole": ReproduceOptions(), "small": ReproduceOptions(small=True)} if figure.has_runs else {}
    runs = {size: make_plan(figure, options) for size, options in plans.items()}
    return {
        "name": figure.name,
        "title": figure.title,
        "shows": figure.shows,
        "nothing": figure.nothing,
        "missing": list(figure.missing),
        "runs": {size: len(plan) for size, plan in runs.items()},
        "env_steps": {size: sum(run.env_steps for run in plan) for size, plan in runs.items()},
        "commands": {size: [str(run) for run in plan] for size, plan in runs.items()},
    }


def listing(figures: list[Figure]) -> Iterator[str]:
    """Yield the lines of figures, under the titles of their papers."""
    paper = ""
    for figure in figures:
        if figure.paper != paper:
            paper = figure.paper
            yield f"{paper}: {PAPERS[paper]}"
            yield ""
        yield from describe(figure)
        yield ""


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _large(number: float) -> str:
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.1g}"
