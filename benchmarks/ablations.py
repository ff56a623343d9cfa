"""Returns of the preset `minatar` without one of its parts: what does each of them give?

    python benchmarks/ablations.py breakout --seeds 1      # measure what is missing
    python benchmarks/results.py --page                    # write the page

A finished run is in the game's file at once.
"""

from __future__ import annotations

import statistics
from functools import partial

import final_return
import measure
from row_files import Results, machines, measure_missing, measured, read

STEPS = 100_000
SEEDS = (11, 12, 13, 14, 15)
GAMES = {"breakout": "MinAtar/Breakout-v1", "space_invaders": "MinAtar/SpaceInvaders-v1"}
_WHOLE = "all of them"
ARMS = {
    _WHOLE: "",
    "no policy clip": "--algorithm.policy-clip inf",
    "no trust region": "--algorithm.trust-region-threshold inf",
    "neither of the two": "--algorithm.policy-clip inf --algorithm.trust-region-threshold inf",
    "advantages bootstrap from the targets": "--algorithm.lambda-advantages false",
    "advantages as they are": "--algorithm.normalize-advantages off",
    "entropy of fresh experience only": "--algorithm.entropy-on fresh",
}
"""By what is left out of the preset: the arguments that do so."""


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("games", nargs="+", choices=list(GAMES), help="games to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many seeds; 0: all")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    options = parser.parse_args()
    for game in options.games:
        cases = [(arm, seed) for seed in SEEDS[: options.seeds or None] for arm in ARMS]
        measure_missing(file_of(game), cases, partial(_train, game), ("value", "seconds"), options.jobs)


def file_of(game: str) -> str:
    """Return the name of a game's file."""
    return f"ablation_{game}"


def measured_games() -> list[str]:
    """Return the names of the games that have a file."""
    return [game for game in GAMES if measured([file_of(game)])]


def section(games: list[str]) -> list[str]:
    """Return the lines for docs/results.md: a row for what is left out, a column for each game."""
    found = {game: read(file_of(game)) for game in games}
    lines = ["", "## What the parts of the preset `minatar` give", ""]
    lines += [f"One part is left out at a time. Final returns after {STEPS:,} env steps, medians over seeds (lowest to"]
    lines += ["highest), and their ratio to the preset's.", ""]
    lines += [f"| | {' | '.join(GAMES[game] for game in games)} |", "|---|" + "---|" * len(games)]
    lines += [f"| {arm} | {' | '.join(_cell(found[game], arm) for game in games)} |" for arm in ARMS]
    return [*lines, "", f"`python benchmarks/ablations.py {' '.join(games)}`, {machines(*found.values())}."]


def _train(game: str, arm: str, seed: int) -> dict[str, float]:
    words = f"minatar --env {GAMES[game]} --learner.torch-threads 1 {ARMS[arm]}"
    return final_return.train(words.split(), STEPS, seed)


def _values(results: Results, arm: str) -> list[float]:
    return [run["value"] for run in results["sides"].get(arm, {}).values()]


def _cell(results: Results, arm: str) -> str:
    values, whole = _values(results, arm), _values(results, _WHOLE)
    if not values or not whole:
        return ""
    median = statistics.median(values)
    said = f"{median:.2f} ({min(values):.2f} to {max(values):.2f}, n={len(values)})"
    return said if arm == _WHOLE else f"{said}: {median / statistics.median(whole):.2f}"


if __name__ == "__main__":
    main()
