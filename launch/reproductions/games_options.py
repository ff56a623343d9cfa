"""Options of `laser sweep` over several games; nothing here imports NumPy, which --help does not need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from laser.config import Bounds, Problem, find_problems, raise_problems
from launch.settings.values import apply_overrides

_OF_EACH = {
    "env": "--games names the environments",
    "resume": "the same command goes on with what is left",
    "restart": "the same command goes on with what is left",
}
_TAKEN = ("games", "repeats", "jobs", "run-dir")


@dataclass(frozen=True)
class GamesOptions:
    """Options of a sweep over several games."""

    games: Annotated[
        str, "a sweep on each of these games, one replay per game: ids, or sets such as atari57; default: the preset's"
    ] = ""
    repeats: Annotated[int, Bounds(least=1, most=1000), "sweeps of each game, each with a seed of its own"] = 1
    jobs: Annotated[int, Bounds(least=1, most=1024), "with --games or --repeats: sweeps at the same time"] = 1
    run_dir: Annotated[Path | None, "directory of all sweeps and of their result"] = None


def asks_for_games(arguments: Sequence[str]) -> bool:
    """Return whether a `laser sweep` command line has an option of several games or repeats."""
    return any(_key_of(argument) in ("games", "repeats", "jobs") for argument in arguments)


def take_options(arguments: Sequence[str]) -> tuple[list[str], GamesOptions]:
    """Return the words of each game's sweep, and the options of all of them together.

    Raises:
        ConfigError: an option is mistyped, or has no effect here.
    """
    rest: list[str] = []
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        key, (_, equals, text) = _key_of(word), word.partition("=")
        if key in _OF_EACH:
            problems.append(Problem(key, f"has no effect on several sweeps: {_OF_EACH[key]}", "leave it out"))
        if key not in _TAKEN:
            rest.append(word)
        elif not equals and (not waiting or waiting[0].startswith("--")):
            problems.append(Problem(key, "needs a value", f"use --{key} VALUE"))
        else:
            texts[key] = text if equals else waiting.pop(0)
    if texts.keys().isdisjoint(("games", "repeats")) and "jobs" in texts:
        remedy = "--concurrent N sets how many members of one sweep train at the same time"
        problems.append(Problem("jobs", "has no effect without --games or --repeats", remedy))
    options, found = apply_overrides(GamesOptions(), texts, all_texts=True)
    raise_problems([*problems, *found, *find_problems(options)])
    return rest, options


def _key_of(argument: str) -> str:
    return argument[2:].partition("=")[0].replace("_", "-") if argument.startswith("--") else ""
