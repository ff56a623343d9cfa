"""`laser sweep --games`: a sweep on each of several games, with one replay per game, as one thing with one result."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from laser.config import ConfigError, Problem, raise_problems
from laser.environments.named_sets import SETS
from launch.evaluation.sweep_evaluation import BestCurve, MemberRecord
from launch.evaluation.sweeps_together import SweepOfGames, SweepsTogether, put_together
from launch.records.atomic_files import replace_file
from launch.records.run_names import slug
from launch.records.run_record import RUNS_ROOT, read_record
from launch.report.page import Page
from launch.report.pictures import THEMES, Line, Panel, draw
from launch.report.recorded import Recorded
from launch.reproductions.figure import Figure
from launch.reproductions.games_options import GamesOptions
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.plan import Run, why_unable
from launch.reproductions.reproduce import RunsFailedError
from launch.reproductions.running import run_all
from launch.reproductions.state import Reproduction
from launch.standard_output import finite
from launch.standard_output import say as say_aloud
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions

_FIGURE = Figure("sweep/over-games", "A sweep over games", "The best member at each point of the median over games.")


def ids_of(options: GamesOptions, env: str) -> list[str]:
    """Return the environment ids, with sets replaced by their games.

    Args:
        options: see `GamesOptions`.
        env: the environment of the preset, for options that name no game.

    Raises:
        ConfigError: a game is named twice.
    """
    names = [name.strip() for name in options.games.split(",") if name.strip()]
    ids = [id for name in names for id in SETS.get(name, (name,))] or [env]
    twice = next((id for place, id in enumerate(ids) if id in ids[:place]), None)
    if twice is not None:
        raise ConfigError([Problem("games", f"{twice} is named twice", "--repeats N trains several sweeps of each")])
    return ids


def plan_games(words: Sequence[str], first: SweepConfig, options: GamesOptions) -> list[Run]:
    """Return the sweeps, game by game within each repeat; a repeat's sweeps have the same seed, and so the same draws.

    Args:
        words: of the command line, without what all sweeps have in common and without environment.
        first: the sweep that they make on the first game.
        options: see `GamesOptions`.

    Raises:
        ConfigError: a member would have other settings, or another length, in each game.
    """
    base, num_members = first.base, len(first.members())
    if len(ids_of(options, base.env)) > 1:
        raise_problems(list(_differing_members(first.options)))
    runs = []
    for repeat in range(options.repeats):
        seed = base.seed + repeat
        for game in ids_of(options, base.env):
            config = dataclasses.replace(base, env=game, seed=seed)
            own = ("sweep", *words, "--env", game, "--seed", str(seed))
            runs.append(Run("sweep", game, seed, own, config, num_members))
    return runs


def _differing_members(options: SweepOptions) -> Iterator[Problem]:
    """Yield the options with which a member is not the same agent in all games."""
    for key, is_on, what in (
        ("tuner", options.tunes, "would choose other settings in each game"),
        ("pruner", options.prunes, "would end other members in each game"),
        ("pbt", options.pbt, "would change the members' settings differently in each game"),
    ):
        if is_on:
            yield Problem(key, f"{what}, and a member is the same agent in all games", "sweep over one game at a time")


def sweep_over_games(words: Sequence[str], first: SweepConfig, options: GamesOptions) -> dict[str, Any]:
    """Train the sweeps of all games and repeats, each in a process of its own, and return what they show together.

    The directory holds `runs/`, a sweep's directory for each game and repeat, and the result: `figure.png`,
    `report.html` and `results.json`. The same call goes on with what is left of a stopped one.

    Args:
        words: see `plan_games`.
        first: the sweep on the first game, checked.
        options: see `GamesOptions`.

    Raises:
        ConfigError: a game cannot be played here.
        CannotCreateError: the directory holds something else, or sweeps of other settings.
        RunsFailedError: sweeps failed; what the others show is in the result.
        Interrupted: Ctrl-C; the sweeps in progress have saved checkpoints.
    """
    runs, base = plan_games(words, first, options), first.base
    missing = [(run.game, problem) for run in runs for problem in why_unable(run)]
    problems = [dataclasses.replace(problem, key=f"games: {game}") for game, problem in missing]
    raise_problems(list(dict.fromkeys(problems)))
    path = options.run_dir or RUNS_ROOT / "games" / slug(f"{base.preset}-{options.games or base.env}")

    def say(text: str) -> None:
        if not base.quiet:
            say_aloud(text)

    sweeps = Reproduction(path, option="run-dir")
    sweeps.begin(_FIGURE, ReproduceOptions(), runs)
    sharing = "one replay per game" if first.options.share_replay else "a replay per member"
    say(f"{len(runs)} sweeps of {runs[0].num_members} members, {sharing}; in {path}")
    with sweeps.held():
        failures = run_all(sweeps, runs, options.jobs, "", say)
    done = [run for run in runs if sweeps.is_done(run)]
    together = None
    if done:
        together = put_together([read_sweep(sweeps.run_dir(run)) for run in done])
        save_together(path, together, runs, failures)
        for line in together.lines():
            say(line)
        say(f"picture, table and report: {path}")
    if failures:
        name, line = next(iter(failures.items()))
        wrong = f"{len(failures)} of {len(runs)} sweeps failed, {name} among them: {line}"
        raise RunsFailedError("games", wrong, "the same command tries them again")
    assert together is not None, "a sweep without failures is done"
    return {"run_dir": str(path), "together": together.to_json()}


def read_sweep(path: Path) -> SweepOfGames:
    """Return a sweep with the returns of each member's newest 20 training episodes of each task."""
    records, returns = [], {}
    found = [place for place in (path / "members").glob("*") if place.name.isdecimal()]
    for number, place in enumerate(sorted(found, key=lambda place: int(place.name))):
        record = read_record(place)
        records.append(MemberRecord(place / "metrics.db", record["config"]["env"], record["member"]["overrides"]))
        returns[number] = {task.id: task.mean_return for task in Recorded(place).newest_returns}
    return SweepOfGames(path, records, returns)


def save_together(path: Path, together: SweepsTogether, runs: Sequence[Run], failures: Mapping[str, str]) -> None:
    """Write `figure.png`, `report.html` and `results.json` into a directory.

    Args:
        path: the directory.
        together: what the finished sweeps show.
        runs: all sweeps.
        failures: the last line of each that failed, by name.
    """
    title = f"The best member at each point, over {len(together.games)} games"
    page = Page(title)
    for line in together.lines():
        page.paragraph(line)
    lines = [
        Line(f"repeat {place}", [point for point in _points(repeat.curve) if math.isfinite(point[1])])
        for place, repeat in enumerate(together.repeats, start=1)
        if repeat.curve is not None
    ]
    curve = together.curve
    if curve is not None and len(together.repeats) > 1:
        rows = list(zip(curve.ends, curve.means, curve.deviations, strict=True))
        points = [(end, mean) for end, mean, _ in rows]
        band = [(mean - deviation, mean + deviation) for _, mean, deviation in rows]
        lines.insert(0, Line("mean of the repeats, and a standard deviation", points, band=band))
    if lines and curve is not None:
        panels = [Panel("frames per member", curve.name, lines)]
        light, dark = (draw(panels, title, theme=theme) for theme in THEMES)
        page.picture(light, title, dark)
        replace_file(path / "figure.png", light)
    page.heading("Repeats")
    table = []
    for place, repeat in enumerate(together.repeats, start=1):
        score = "none" if repeat.score is None else f"{repeat.score:.4g}"
        table.append((str(place), str(repeat.num_agents), repeat.best or "none", score))
    page.table(("repeat", "members", "best member", "its score"), table)
    if failures:
        page.heading("Sweeps that failed")
        for name, line in failures.items():
            page.paragraph(f"{name}: {line}")
    page.heading("Commands")
    page.code("\n".join(map(str, runs)))
    content = {"together": together.to_json(), "failures": dict(failures), "commands": list(map(str, runs))}
    replace_file(path / "report.html", page.render().encode())
    replace_file(path / "results.json", json.dumps(finite(content)).encode())


def _points(curve: BestCurve) -> list[tuple[float, float]]:
    return list(zip(curve.ends, curve.scores, strict=True))
