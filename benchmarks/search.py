"""A search by one sweep that shares its replay, prunes and is tuned, beside other searches of the same ranges.

    python benchmarks/search.py cartpole --seeds 1    # measure what is missing
    python benchmarks/results.py --page               # write the page

The others: 40 trials of Optuna, each alone and pruned by the median of those before them; population based training
with a replay for each member; the same sweep with a replay for each member; and the same sweep without what corrects
for the members' different policies. A member has as many env steps as a trial. The best agent then plays 20 episodes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import measure
from page_picture import Picture
from row_files import Finding, machines, measure_missing, measured, read, verdict

from launch.report.pictures import Line, Panel

_SPACES = (
    "--space",
    "algorithm.learning-rate=log(1e-4,1e-2)",
    "--space",
    "algorithm.entropy-cost=log(1e-4,1e-1)",
)
_NUM_MEMBERS, _AT_ONCE = 8, 2
SWEEP, PBT = "8 members: one replay, tuned, pruned", "8 members: a replay each, PBT"
TRIALS = "Optuna, 40 trials, median pruner"
UNSHARED = "8 members: a replay each, tuned, pruned"
UNCORRECTED = "8 members: one replay, tuned, pruned, no trust region, no policy clip"
# With thirds, the default, all but one or two members end at their first rung.
_TUNED = f"--tuner optuna --pruner asha --pruner.reduction 2 --concurrent {_AT_ONCE}"
_HOW = {
    SWEEP: f"--share-replay {_TUNED}",
    UNSHARED: f"--no-share-replay {_TUNED}",
    PBT: "--no-share-replay --pbt",
    UNCORRECTED: f"--share-replay {_TUNED} --algorithm.trust-region-threshold inf --algorithm.policy-clip inf",
}
_SIDES = (SWEEP, UNSHARED, UNCORRECTED, PBT, TRIALS)
_SHORT = {TRIALS: "Optuna", PBT: "population based training"}
"""The searches that the aim is about, in fewer words."""
_AS_GOOD = 0.95
"""The least share of another search's return that counts as the same return."""
_MOST_OF_ALL = 1 / 3
"""The most env steps of the sweep, over those of another search; a member has those of a single run at most."""
Sides = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By search and seed, `value` and `env_steps`."""
_TRIALS = Path(__file__).parent / "peers" / "optuna_trials.py"


@dataclass(frozen=True)
class Task:
    """A task: its title, a preset with flags, the env steps of a member, and seeds."""

    title: str
    words: str
    steps: int
    seeds: tuple[int, ...] = (11, 12, 13, 14, 15)


# The preset of the rows that are kept; it has a discount of 0.99 and a replay of 4,000 since.
_AS_MEASURED = "--algorithm.discount 0.98 --replay.capacity-steps 10000"
TASKS = {
    "cartpole": Task("CartPole-v1", f"cartpole --stop-at-return 475 {_AS_MEASURED}", 30_000),
    "breakout": Task("MinAtar Breakout", "minatar --env MinAtar/Breakout-v1", 100_000),
}


def main() -> None:
    """Measure what the files of the tasks lack."""
    parser = measure.parser(__doc__)
    parser.add_argument("tasks", nargs="+", choices=list(TASKS), help="tasks to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many searches; 0: all of the task")
    options = parser.parse_args()
    for name in options.tasks:
        task = TASKS[name]
        cases = [(side, seed) for side in _SIDES for seed in task.seeds[: options.seeds or None]]
        measure_missing(file_of(name), cases, partial(search, task), ("value", "env_steps", "seconds"))


def file_of(name: str) -> str:
    """Return the name of a task's file."""
    return f"search_{name}"


def search(task: Task, side: str, seed: int) -> dict[str, Any]:
    """Return the best agent's `value` over 20 episodes, the `env_steps` of all members or trials, and `seconds`."""
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "search"
        common = [*task.words.split(), "--steps", task.steps, "--seed", seed]
        if side == TRIALS:
            command: list[str | Path | float] = [sys.executable, _TRIALS, run_dir, *common, *_SPACES[1::2]]
            result = measure.run_json(command, timeout_s=4 * 3600.0)
            best = Path(result["best"])
        else:
            how = f"--sample {_NUM_MEMBERS} --evaluation.episodes 20 {_HOW[side]}"
            command = [*measure.LASER, "sweep", *common, *_SPACES, *how.split(), "--run-dir", run_dir]
            result = measure.run_json([*command, "--quiet", "--json"], timeout_s=4 * 3600.0)
            best = run_dir / "members" / str(result["best_member"])
        played = measure.run_json([*measure.LASER, "eval", best, "--episodes", 20, "--json"], timeout_s=600.0)
    return {
        "value": round(played["mean_return"], 2),
        "env_steps": int(result["env_steps"]),
        "seconds": round(result["wall_s"], 1),
    }


def measured_tasks() -> list[str]:
    """Return the names of the tasks that have a file."""
    return [name for name in TASKS if measured([file_of(name)])]


def whole_tasks() -> list[str]:
    """Return the names of the tasks whose file has every search."""
    sides = {name: read(file_of(name))["sides"] for name in TASKS}
    return [name for name in TASKS if all(len(sides[name].get(side, ())) == len(TASKS[name].seeds) for side in _SIDES)]


def section(names: Sequence[str]) -> list[str]:
    """Return the lines of tasks for docs/results.md."""
    found = {name: read(file_of(name)) for name in names}
    budgets = "; ".join(f"{TASKS[name].title}: {TASKS[name].steps:,}" for name in names)
    lines = ["", "## A search for settings", "", "![a search for settings](pictures/results/search.png)", ""]
    lines += [
        f"Step size and entropy cost are sought. Env steps of a member or a trial: {budgets}.",
        "Medians over searches (lowest to highest); the best agent of each search plays 20 episodes. The last column",
        "sets the sweep that shares its replay beside the others, by means over searches, since a median does not see",
        "what a limit of the return hides.",
        f"To reach: {_AS_GOOD} times the return with a third of the env steps of all.",
        f"`python benchmarks/search.py {' '.join(names)}`, {machines(*found.values())}.",
        "",
        "| task | search | return of the best | env steps of all, thousands | seconds | sweep that shares |",
        "|---|---|---|---|---|---|",
    ]
    for name, results in found.items():
        sides = results["sides"]
        for side in filter(sides.__contains__, _SIDES):
            runs = list(sides[side].values())
            cells = [
                TASKS[name].title,
                side,
                _spread([run["value"] for run in runs], 1),
                _spread([run["env_steps"] / 1000 for run in runs], 0),
                _spread([run["seconds"] for run in runs], 0),
                _verdict(sides, side, TASKS[name]),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def picture(names: Sequence[str]) -> Picture:
    """Return the picture of the measured tasks: a point for each search, over its env steps."""
    panels = []
    for name in names:
        sides = read(file_of(name))["sides"]
        lines = [
            Line(side, [(run["env_steps"], run["value"]) for run in sides[side].values()], is_points=True)
            for side in filter(sides.__contains__, _SIDES)
        ]
        panels.append(Panel("env steps of all", f"return of the best, {TASKS[name].title}", lines, is_log_x=True))
    return Picture("A search for step size and entropy cost", panels, _SIDES, num_columns=len(panels))


def findings() -> list[Finding]:
    """Return what the measured tasks say of the aim; a search that misses it so far counts as one that misses it."""
    found = []
    for name in measured_tasks():
        sides = read(file_of(name))["sides"]
        for other in filter(sides.__contains__, _SHORT):
            is_whole, is_reached = _is_whole(sides, other, TASKS[name]), _is_reached(*_shares(sides, other))
            what, on = f"a search for settings against {_SHORT[other]}", TASKS[name].title
            if is_whole:
                found.append(Finding(what, on, is_reached))
            else:
                found.append(Finding(what, f"{on} so far", None if is_reached else False))
    return found


def _verdict(sides: Sides, other: str, task: Task) -> str:
    """Return the page's words for the sweep that shares its replay beside another search."""
    if SWEEP not in sides or other == SWEEP:
        return ""
    of_return, of_all = _shares(sides, other)
    said = f"{of_return:.2f} times the return, {of_all:.3f} times the env steps"
    whole = other in _SHORT and _is_whole(sides, other, task)
    return f"{said}: {verdict(_is_reached(of_return, of_all))}" if whole else said


def _shares(sides: Sides, other: str) -> tuple[float, float]:
    """Return the return and the env steps of the sweep that shares, over another search's, by means over searches."""

    def mean(side: str, number: str) -> float:
        return statistics.fmean(run[number] for run in sides[side].values())

    return mean(SWEEP, "value") / mean(other, "value"), mean(SWEEP, "env_steps") / mean(other, "env_steps")


def _is_reached(of_return: float, of_all: float) -> bool:
    return of_return >= _AS_GOOD and of_all <= _MOST_OF_ALL


def _is_whole(sides: Sides, other: str, task: Task) -> bool:
    return all(len(sides[side]) == len(task.seeds) for side in (SWEEP, other))


def _spread(values: Sequence[float], digits: int) -> str:
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f}, n={len(values)})"


if __name__ == "__main__":
    main()
