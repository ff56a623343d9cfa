"""The end of a reproduction: the figure drawn from our runs, a table beside the paper's numbers, the verdicts."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laser.scoring.elo import elo_ratings, has_finite_ratings
from laser.scoring.ranks import mean_ranks, mean_winning_probabilities, winning_probabilities
from laser.scoring.statistics import mean_interval
from launch.records.atomic_files import replace_file
from launch.report.page import Page
from launch.report.pictures import DARK, LIGHT, Line, Panel, Theme, draw
from launch.reproductions.figure import Figure, Number
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.outcomes import BUCKET, HIGH, LOW, NUM_POINTS, Outcomes, points_of
from launch.reproductions.plan import Tuned, own_presets
from launch.reproductions.published import published_scores
from launch.reproductions.verdict import Verdict
from launch.settings.values import show

HEADER = ("game", "arm", "metric", "last tenth (95 %)", "whole run (95 %)", "best", "tuned to", "the paper")
_OVER_GAMES = "median over games"
_AXIS = "thousand env steps (per member)"
_MOST_PANELS = 16


def how_small(figure: Figure, options: ReproduceOptions) -> str:
    """Return how the runs differ from the paper's, for the picture; "" if they do not."""
    parts = ["smallest size: other games, small nets, small batches"] if options.small else []
    parts += [f"scaled by {options.scale:g}"] if options.scale != 1.0 else []
    size = figure.small if options.small else figure.full
    if size is not None and 0 < options.games < len(size.ids):
        parts.append(f"first {options.games} games" if options.games > 1 else "first game")
    parts += [f"on {options.env}"] if options.env else []
    kept = " and its replay" if options.scale != 1.0 else ""
    if options.preset:
        own = own_presets(figure, options)
        parts.append(f"with the preset {options.preset}{kept}" + (f", but not {', '.join(own)}" if own else ""))
    parts += [f"only arms with {options.arms}"] if options.arms else []
    if options.seeds and size is not None and options.seeds != size.seeds:
        parts.append(f"{options.seeds} seed{'s' if options.seeds > 1 else ''} instead of {size.seeds}")
    return "; ".join(parts)


def picture_of(outcomes: Outcomes, note: str, theme: Theme = LIGHT) -> bytes:
    """Return the figure as PNG: a panel per curve and game, with the runs' median (or mean) and band.

    Of more than sixteen panels only those of the median over games are drawn, or the first ones. The paper's numbers
    are lines beside ours where they are of the same games at the same size.

    Args:
        outcomes: curves of the runs.
        note: how the runs differ from the paper's; "": they do not.
        theme: colours.
    """
    figure = outcomes.figure
    games = list(outcomes.games)
    over = [""] if len(games) > 1 and outcomes.normalised else []
    most = max(1, _MOST_PANELS // len(figure.curves))
    shown = over if over and len(games) > most else [*games[:most], *over]
    panels = []
    for curve in figure.curves:
        for game in shown:
            lines = []
            for arm in figure.drawn:
                bounds = _bounds(outcomes, curve.metric, arm.label, game)
                if bounds is None:
                    continue
                x = points_of(outcomes.length(arm.label, game)) / 1e3
                known = x >= outcomes.begin(curve.metric, arm.label, game) / 1e3
                low, middle, high = (row[known] for row in bounds)
                points, band = np.stack([x[known], middle], 1).tolist(), np.stack([low, high], 1).tolist()
                if points:
                    lines.append(Line(arm.label, points, band=band))
            if not note:
                lines += _paper_lines(figure, curve.metric, game, outcomes.steps)
            is_score = outcomes.normalised and curve == figure.curves[0]
            title = f"{curve.title}, normalised" if is_score else curve.title
            panels.append(Panel(_AXIS, title, lines, title=game or _OVER_GAMES, is_log=curve.log))
    if figure.pairs:
        panels.append(_pairs_panel(outcomes))
    elif figure.wins and len(figure.drawn) > 1:
        panels.append(_winning_panel(outcomes))
    panels += [_finals_panel(outcomes, key, game) for key in figure.finals for game in games[:most]]
    columns = min(len(panels), 3)
    texts = [f"{figure.name}: {figure.title}", *([f"({note})"] if note else [])]
    title = "\n".join(line for text in texts for line in textwrap.wrap(text, 60 * columns))
    return draw(panels, title, columns, shares_y=False, theme=theme)


def table_of(outcomes: Outcomes, tuned: Tuned) -> list[tuple[str, ...]]:
    """Return a row per game, arm and metric, with the paper's numbers in the last column; see `HEADER`."""
    figure, rows = outcomes.figure, []
    games = [*outcomes.games, *([""] if len(outcomes.games) > 1 and outcomes.normalised else [])]
    seen: set[Number] = set()
    for curve in figure.curves:
        for game in games:
            for arm in figure.arms:
                cells = [
                    _cell(outcomes.statistic(curve.metric, arm.label, game, each)) for each in ("final", "area", "best")
                ]
                numbers = list(_numbers_for(figure, curve.metric, arm.label, game))
                seen |= set(numbers)
                printed = ", ".join(_beside(number, outcomes, curve.metric, game) for number in numbers)
                chosen = tuned.get((arm.label, game), {})
                to = ", ".join(f"{key.rpartition('.')[2]} {show(value)}" for key, value in chosen.items())
                rows.append((game or _OVER_GAMES, arm.label, curve.metric, *cells, to or "-", printed or "-"))
    for number in figure.numbers:
        if number not in seen:
            metric = number.metric or figure.curves[0].metric
            rows.append((number.game or _OVER_GAMES, number.arm, metric, "-", "-", "-", "-", str(number)))
    return rows


@dataclass(frozen=True)
class Account:
    """What is known of a figure's runs beside their curves.

    Args:
        note: how they differ from the paper's; "": they do not.
        commands: of the runs of the comparison.
        failures: the last line of each run that failed, by its name.
        tuned: settings that tuning chose, by arm and game.
        seconds: that the finished runs took, one after the other.
        commits: of the sources that they ran.
    """

    note: str
    commands: Sequence[str]
    failures: Mapping[str, str]
    tuned: Tuned
    seconds: float
    commits: Sequence[str]


def save_results(directory: Path, outcomes: Outcomes, verdicts: Sequence[Verdict], account: Account) -> dict[str, Any]:
    """Write `figure.png`, `report.html` and `results.json` into a directory, and return the content of the last.

    Args:
        directory: made if it is missing.
        outcomes: curves of the runs.
        verdicts: one per rule.
        account: see `Account`.
    """
    figure, note, rows = outcomes.figure, account.note, table_of(outcomes, account.tuned)
    directory.mkdir(parents=True, exist_ok=True)
    picture = picture_of(outcomes, note)
    page = Page(f"{figure.name}: {figure.title}")
    page.paragraph(figure.shows)
    page.paragraph(f"Here: {note}." if note else "Here: the paper's size.")
    page.picture(picture, figure.title, picture_of(outcomes, note, DARK))
    page.heading("Verdict")
    for verdict in verdicts:
        page.paragraph(str(verdict))
    page.heading("Runs beside the paper's numbers")
    page.table(HEADER, rows)
    standings = standings_of(outcomes) if figure.wins else []
    if standings:
        page.heading("Ranks and Elo over games")
        page.table(("arm", "mean rank", "Elo"), standings)
    for title, lines in (
        ("What is not here", figure.missing),
        ("Runs that failed", [f"{name}: {line}" for name, line in account.failures.items()]),
    ):
        if lines:
            page.heading(title)
            for line in lines:
                page.paragraph(line)
    page.heading("Commands")
    page.code("\n".join(account.commands))
    content = {
        "figure": figure.name,
        "title": figure.title,
        "note": note,
        "commit": ", ".join(account.commits),
        "env_steps": outcomes.steps,
        "seconds": account.seconds,
        "words": [str(verdict) for verdict in verdicts],
        "verdicts": [verdict.to_json() for verdict in verdicts],
        "table": [dict(zip(HEADER, row, strict=True)) for row in rows],
        "standings": [list(row) for row in standings],
        "curves": {" | ".join(key): _plain(rows) for key, rows in outcomes.curves.items()},
        "failures": dict(account.failures),
        "commands": list(account.commands),
    }
    replace_file(directory / "figure.png", picture)
    replace_file(directory / "report.html", page.render().encode())
    replace_file(directory / "results.json", json.dumps(content).encode())
    return content


def standings_of(outcomes: Outcomes) -> list[tuple[str, str, str]]:
    """Return (arm, mean rank over games, Elo) by the best value of each run; [] where nobody else is ranked.

    Where scores are normalised, random play (0), people (1) and published agents of the figure (see `published_scores`)
    are ranked, too, and a human has the Elo 0; else the first arm has it.
    """
    labels, metric = [arm.label for arm in outcomes.figure.arms], outcomes.figure.curves[0].metric
    scores = np.array([[outcomes.statistic(metric, arm, game, "best") for game in outcomes.games] for arm in labels])
    if not np.isfinite(scores).all():
        return []
    zero = 0
    if outcomes.normalised:
        num_games = len(outcomes.games)
        others = published_scores(outcomes.figure.name, outcomes.games)
        known = {"random": [0.0] * num_games, "human": [1.0] * num_games, **others}
        fixed = np.array(list(known.values()))[:, :, None] * np.ones(scores.shape[1:])
        labels, scores, zero = [*labels, *known], np.concatenate([scores, fixed]), len(labels) + 1
    if len(labels) < 2:
        return []
    ranks = mean_ranks(np.median(scores, -1))
    wins = winning_probabilities(scores) * scores.shape[1] * scores.shape[2] ** 2
    elo = elo_ratings(wins, zero, 0.0 if has_finite_ratings(wins) else 0.5)
    return [(label, f"{ranks[place]:.2f}", f"{elo[place]:+.0f}") for place, label in enumerate(labels)]


def _winning_panel(outcomes: Outcomes) -> Panel:
    """Return the probability over training that each arm beats another one drawn at random, on a random game."""
    labels, metric = [arm.label for arm in outcomes.figure.drawn], outcomes.figure.curves[0].metric
    rows = np.array([[outcomes.curve(metric, arm, game) for game in outcomes.games] for arm in labels])
    lines = []
    if np.isfinite(rows).all():
        chances = mean_winning_probabilities(winning_probabilities(rows))
        x = points_of(outcomes.steps) / 1e3
        lines = [Line(label, np.stack([x, chances[place]], 1).tolist()) for place, label in enumerate(labels)]
    return Panel(_AXIS, "probability to score more than another", lines, title="over all games")


def _pairs_panel(outcomes: Outcomes) -> Panel:
    """Return the probability over training that a run of one arm has more than one of another, on a random game."""
    figure, lines = outcomes.figure, []
    x = points_of(outcomes.steps) / 1e3
    for pair in figure.pairs:
        labels = (pair.arm, pair.than)
        rows = np.array(
            [[outcomes.curve(figure.curves[0].metric, arm, game) for game in outcomes.games] for arm in labels]
        )
        if np.isfinite(rows).all():
            chances = winning_probabilities(rows)[0, 1]
            lines.append(Line(f"{pair.arm} over {pair.than}", np.stack([x, chances], 1).tolist()))
    return Panel(_AXIS, "probability to score more", lines, goal=0.5, title="over all games")


def _finals_panel(outcomes: Outcomes, key: str, game: str) -> Panel:
    """Return each member's last tenth over a setting, a colour per arm."""
    lines = []
    for arm in outcomes.figure.drawn:
        settings, finals = outcomes.settings[key, arm.label, game], outcomes.finals(arm.label, game)
        known = np.isfinite(settings) & np.isfinite(finals)
        points = np.stack([settings[known], finals[known]], 1).tolist()
        lines += [Line(arm.label, points, is_points=True)] if points else []
    title = outcomes.figure.curves[0].title
    return Panel(
        key.rpartition(".")[2].replace("-", " "), f"last tenth of the {title}", lines, title=game, is_log_x=True
    )


def _bounds(outcomes: Outcomes, metric: str, arm: str, game: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return the band's lower end, the middle and its upper end [points] of an arm's finished runs; None without."""
    rows, band = outcomes.curve(metric, arm, game), outcomes.figure.band
    finished = np.isfinite(rows).all(1)
    if not finished.any():
        return None
    if band == "episodes" and metric == BUCKET:
        low, high = (outcomes.curve(each, arm, game)[finished].mean(0) for each in (LOW, HIGH))
        return low, rows[finished].mean(0), high
    return _band(rows[finished], "20-80" if band == "episodes" else band)


def _band(rows: np.ndarray, band: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if band == "deviation":
        mean, deviation = rows.mean(0), rows.std(0)
        return mean - deviation, mean, mean + deviation
    if band == "range":
        return rows.min(0), rows.mean(0), rows.max(0)
    outer = [float(end) for end in band.split("-")]
    low, middle, high = np.percentile(rows, (outer[0], 50.0, outer[1]), axis=0)
    return low, middle, high


def _numbers_for(figure: Figure, metric: str, arm: str, game: str) -> Iterator[Number]:
    for number in figure.numbers:
        if number.arm == arm and number.game == game and (number.metric or figure.curves[0].metric) == metric:
            yield number


def _paper_lines(figure: Figure, metric: str, game: str, steps: int) -> list[Line]:
    """Return the paper's numbers: a point where one belongs to a moment, else a line over the whole run."""
    lines, moments = [], dict[str, list[tuple[float, float]]]()
    for number in figure.numbers:
        if number.game != game or (number.metric or figure.curves[0].metric) != metric:
            continue
        if number.at:
            moments.setdefault(number.arm, []).append((number.at / 1e3, number.value))
            continue
        note = f", {number.note}" if number.note else ""
        lines.append(Line(f"the paper: {number.arm}{note}", [(0.0, number.value), (steps / 1e3, number.value)]))
    return lines + [Line(f"the paper: {arm}", points, is_points=True) for arm, points in moments.items()]


def _beside(number: Number, outcomes: Outcomes, metric: str, game: str) -> str:
    """Return a number of the paper, with ours at its moment if it has one."""
    length = outcomes.length(number.arm, game)
    if not 0 < number.at <= length:
        return str(number)
    place = math.ceil(number.at / length * NUM_POINTS) - 1
    return f"{number}; here {_cell(outcomes.curve(metric, number.arm, game)[:, place])}"


def _cell(values: np.ndarray) -> str:
    known = values[np.isfinite(values)].tolist()
    if not known:
        return "no finished runs"
    mean, half = mean_interval(known)
    return f"{mean:.4g}" + ("" if math.isinf(half) else f" +- {half:.2g}")


def _plain(rows: np.ndarray) -> list[Any]:
    """Return curves as lists with four digits; None where a run is not finished, which JSON has no number for."""
    rounded = [[[float(f"{value:.4g}") for value in points] for points in members] for members in rows]
    return [None if math.isnan(members[0][0]) else members for members in rounded]
