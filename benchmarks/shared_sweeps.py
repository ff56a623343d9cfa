"""Sweeps of four members that share one replay, beside the same sweeps with a replay each: what does sharing save?

    python benchmarks/shared_sweeps.py breakout --seeds 1   # measure what is missing
    python benchmarks/results.py --page                     # write the page and the picture

The members are two step sizes by two entropy costs. The mean member is the mean over the members' returns at the same
env steps of each. A finished sweep is in the game's file at once.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import curve_points
import measure
from page_picture import Picture
from row_files import Finding, Results, machines, mark, measure_missing, measured, read, verdict

from launch.records.metrics_db import read_series
from launch.report.pictures import Line, Panel

_GRID = "--grid algorithm.learning-rate=1e-3,3e-3 --grid algorithm.entropy-cost=0.001,0.01"
_NO_CORRECTION = "--algorithm.trust-region-threshold inf --algorithm.policy-clip inf"
TO_REACH = 0.5  # of the env steps
SHARED, UNSHARED = "one replay", "a replay each"
ARMS = {
    SHARED: "--share-replay",
    UNSHARED: "--no-share-replay",
    "a replay each, population based training": "--no-share-replay --pbt --pbt.burn-in 10000 --pbt.interval 10000",
    "one replay, no trust region, no policy clip": f"--share-replay {_NO_CORRECTION}",
}


@dataclass(frozen=True)
class Game:
    """A game of the comparison: its title, the arguments of `laser sweep`, env steps of a member, and seeds."""

    title: str
    words: str
    steps: int = 100_000
    seeds: tuple[int, ...] = (11, 12, 13, 14, 15)


GAMES = {
    "breakout": Game("MinAtar Breakout", "minatar --env MinAtar/Breakout-v1"),
    "space_invaders": Game("MinAtar SpaceInvaders", "minatar --env MinAtar/SpaceInvaders-v1"),
}


def main() -> None:
    """Measure what the files of the games lack."""
    parser = measure.parser(__doc__)
    parser.add_argument("games", nargs="+", choices=list(GAMES), help="games to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many sweeps; 0: all of the game")
    options = parser.parse_args()
    for name in options.games:
        game = GAMES[name]
        cases = [(arm, seed) for seed in game.seeds[: options.seeds or None] for arm in ARMS]
        measure_missing(file_of(name), cases, partial(sweep, game), ("value", "seconds"))


def file_of(name: str) -> str:
    """Return the name of a game's file."""
    return f"shared_{name}"


def sweep(game: Game, arm: str, seed: int) -> dict[str, Any]:
    """Return `value`, the mean member's final return, that of the `best` member, `seconds`, and the mean's `curve`."""
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "sweep"
        command = [*measure.LASER, "sweep", *f"{game.words} {_GRID} {ARMS[arm]}".split(), "--steps", game.steps]
        command += ["--seed", seed, "--run-dir", run_dir, "--quiet", "--json"]
        result = measure.run_json(command, timeout_s=4 * 3600.0)
        members = [
            read_series(member / "metrics.db", "charts/episodic_return") for member in (run_dir / "members").iterdir()
        ]
    curves = [dict(curve_points.curve(returns, game.steps, game.steps)) for returns in members]
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    finals = [curve_points.final(returns, game.steps) for returns in members]
    known = [value for value in finals if value is not None]
    return {
        "value": round(statistics.fmean(known), 3),
        "best": round(max(known), 3),
        "seconds": round(result["wall_s"], 1),
        "curve": [[at, round(statistics.fmean(curve[at] for curve in curves), 3)] for at in shared],
    }


def measured_games() -> list[str]:
    """Return the names of the games that have a file."""
    return [name for name in GAMES if measured([file_of(name)])]


def reached_at(curve: Sequence[Sequence[float]], level: float) -> float | None:
    """Return the first env steps at which a curve is at a level; None if it never is."""
    return next((at for at, value in curve if value >= level), None)


def section(names: Sequence[str]) -> list[str]:
    """Return the lines of the measured games for docs/results.md."""
    drawn = " ".join(f"![{GAMES[name].title}](pictures/results/{file_of(name)}.png)" for name in names)
    lines = ["", "## A sweep that shares its replay", "", drawn, ""]
    lines += [
        f"Four members of {GAMES[names[0]].steps:,} env steps each: step sizes 1e-3 and 3e-3 by entropy costs 0.001",
        "and 0.01; medians over sweeps (lowest to highest). The last column says when the mean member is where, with a",
        "replay each, the mean member of the same seed ends, as a share of the env steps; 1.00: not before the end.",
        "",
        "| task | sweep | mean member | best member | as good as a replay each at |",
        "|---|---|---|---|---|",
    ]
    found = {name: read(file_of(name)) for name in names}
    for name, results in found.items():
        game = GAMES[name]
        for arm, runs in results["sides"].items():
            cells = [_spread([run[key] for run in runs.values()]) for key in ("value", "best")]
            shares = _spread(_shares(game, results, arm))
            lines.append(f"| {game.title} | {arm}{mark(runs)} | {' | '.join(cells)} | {shares} |")
    said = [f"{each.on} {verdict(each.is_reached)}" for each in findings()]
    aim = f"To reach: with one replay at most {TO_REACH:g}: {', '.join(said)}."
    return [*lines, "", f"{aim} `python benchmarks/shared_sweeps.py {' '.join(names)}`, {machines(*found.values())}."]


def findings() -> list[Finding]:
    """Return what the measured games say of the aim."""
    shares = {name: _shares(GAMES[name], read(file_of(name)), SHARED) for name in measured_games()}
    is_whole = {name: len(found) == len(GAMES[name].seeds) for name, found in shares.items()}
    return [
        Finding(
            "half of the env steps by a sweep that shares its replay",
            GAMES[name].title,
            statistics.median(found) <= TO_REACH if is_whole[name] else None,
        )
        for name, found in shares.items()
    ]


def _shares(game: Game, results: Results, arm: str) -> list[float]:
    ends = {seed: run["value"] for seed, run in results["sides"].get(UNSHARED, {}).items()}
    pairs = [(run["curve"], ends[seed]) for seed, run in results["sides"].get(arm, {}).items() if seed in ends]
    return [(reached_at(curve, end) or game.steps) / game.steps for curve, end in pairs]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}, n={len(values)})"


def picture(name: str) -> Picture:
    """Return the picture of a game: the mean member of each arm, with the range over sweeps."""
    results: Results = read(file_of(name))
    lines = []
    for arm, runs in results["sides"].items():
        curves = [dict(map(tuple, run["curve"])) for run in runs.values()]
        places = sorted(set.intersection(*(set(curve) for curve in curves)))
        values = [[curve[at] for curve in curves] for at in places]
        points = [(at, statistics.median(each)) for at, each in zip(places, values, strict=True)]
        lines.append(Line(arm, points, band=[(min(each), max(each)) for each in values]))
    panel = Panel("env steps of each member", "return of the mean member", lines)
    return Picture(GAMES[name].title, [panel], tuple(ARMS))


if __name__ == "__main__":
    main()
