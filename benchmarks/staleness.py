"""Returns over the age of the experience that is learned from: which correction stands stale experience?

    python benchmarks/staleness.py cartpole --seeds 1      # measure what is missing
    python benchmarks/results.py --page                    # write the page and the picture

All experience of a batch is replayed and a chosen number of updates old (`--replay.sampler delayed`), within the 16
updates from that age on. Every arm has the same tasks, seeds, networks and step sizes; only the correction differs. A
finished run is in the task's file at once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import final_return
import measure
from page_picture import Picture
from row_files import Finding, Results, machines, measure_missing, measured, read, verdict

from launch.report.pictures import Line, Panel

AGES = (0, 16, 64, 256, 1024)
"""Least ages of what is learned from, in updates."""
_WINDOW = 16
_AIM_AGE, _LOST = 256, 0.3
KEPT = 0.95
_ALL_STALE = "--algorithm.replay-fraction 1 --replay.sampler delayed --algorithm.entropy-on all --replay.min-steps 512"
# Presets may reject and clip; an arm does what its label says, and nothing else.
_NO_REJECTION = "--algorithm.trust-region-threshold inf"
_PLAIN = f"{_NO_REJECTION} --algorithm.policy-clip inf"


@dataclass(frozen=True)
class Task:
    """A task of the grid: its title, and the arguments of `laser train` without seed, arm and age.

    In lockstep the parameters are published once a turn, after `updates_a_turn` updates, and ages are counted in
    publications.
    """

    title: str
    words: str
    steps: int
    updates_a_turn: int
    seeds: tuple[int, ...] = (11, 12, 13, 14, 15)


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        "cartpole --stop-at-return 501 --algorithm.batch-size 8 --replay.samples-per-insert 8 "
        "--replay.capacity-steps 100000 --algorithm.discount 0.98",
        60_000,
        8,
    ),
    "space_invaders": Task(
        "MinAtar SpaceInvaders",
        "minatar --env MinAtar/SpaceInvaders-v1 --replay.samples-per-insert 4 --algorithm.normalize-advantages scale",
        150_000,
        2,
    ),
}
_V_TRACE, _TRUST_REGION = "V-trace", "trust region (0.03)"
ARMS = {
    _V_TRACE: _PLAIN,
    # One update a batch: the proximal policy is the current one, and what is left of the clipping is the bound.
    "decoupled clipping (bound 5)": f"{_PLAIN} --algorithm.pg-rho-clip 5",
    "second moment (0.04)": "--algorithm.rejection second_moment --algorithm.policy-clip inf",
    "ReF-ER": f"{_PLAIN} --algorithm.refer.enabled true",
    _TRUST_REGION: "--algorithm.trust-region-threshold 0.03 --algorithm.policy-clip inf",
    "policy clip (0.5)": f"{_NO_REJECTION} --algorithm.policy-clip 0.5",
    "trust region and policy clip": "--algorithm.trust-region-threshold 0.03 --algorithm.policy-clip 0.5",
}


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("tasks", nargs="+", choices=list(TASKS), help="tasks to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many seeds; 0: all of the task")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    options = parser.parse_args()
    for name in options.tasks:
        seeds = TASKS[name].seeds[: options.seeds or None]
        cases = [(side_of(arm, age), seed) for seed in seeds for age in AGES for arm in ARMS]
        measure_missing(file_of(name), cases, partial(train, TASKS[name]), ("value", "seconds"), options.jobs)


def side_of(arm: str, age: int) -> str:
    """Return the name of an arm at an age in the task's file."""
    return f"{arm}, {age} updates old"


def file_of(name: str) -> str:
    """Return the name of a task's file."""
    return f"stale_{name}"


def train(task: Task, side: str, seed: int) -> dict[str, Any]:
    """Return the final return of a run, `value`, and its `seconds`; `side` is that of `side_of`."""
    arm, age = next((arm, age) for arm in ARMS for age in AGES if side_of(arm, age) == side)
    publications = {"versions": age // task.updates_a_turn, "window": _WINDOW // task.updates_a_turn}
    delay = " ".join(f"--replay.sampler-settings.{name} {number}" for name, number in publications.items())
    words = f"{task.words} {_ALL_STALE} {ARMS[arm]} {delay}".split()
    return final_return.train(words, task.steps, seed)


def measured_tasks() -> list[str]:
    """Return the names of the tasks that have a file."""
    return [name for name in TASKS if measured([file_of(name)])]


def section(name: str) -> list[str]:
    """Return the lines of a task for docs/results.md."""
    task, results = TASKS[name], read(file_of(name))
    lines = ["", f"## Stale experience: {task.title}", "", f"![{task.title}](pictures/results/stale_{name}.png)", ""]
    lines += [
        "All experience is replayed and is the given number of updates old. Share of the fresh return that is left,"
    ]
    lines += [f"medians over seeds (final return, lowest to highest), {task.steps:,} env steps.", ""]
    lines += ["| | " + " | ".join(f"{age:,}" for age in AGES) + " |", "|---|" + "---|" * len(AGES)]
    for arm in ARMS:
        values = [_values(results, arm, age) for age in AGES]
        fresh = statistics.median(values[0]) if values[0] else math.nan
        lines.append(f"| {arm} | {' | '.join(_cell(each, fresh) for each in values)} |")
    aim = f"To reach: at {_AIM_AGE} the trust region keeps {KEPT:.0%} where V-trace loses {_LOST:.0%} or more"
    lines += ["", _in_words(results), f"{aim}: {verdict(_is_reached(results))}."]
    return [*lines, f"`python benchmarks/staleness.py {name}`, {machines(results)}."]


def findings() -> list[Finding]:
    """Return what the measured tasks say of the aim."""
    what = "learning from stale experience with the trust region"
    return [Finding(what, TASKS[name].title, _is_reached(read(file_of(name)))) for name in measured_tasks()]


def _is_reached(results: Results) -> bool:
    kept, lost = (_share(results, arm, _AIM_AGE) for arm in (_TRUST_REGION, _V_TRACE))
    return kept >= KEPT and lost <= 1.0 - _LOST


def _share(results: Results, arm: str, age: int) -> float:
    """Return the share of its fresh return that an arm keeps, of medians; NaN if it was not measured."""
    now, fresh = (_values(results, arm, at) for at in (age, AGES[0]))
    return statistics.median(now) / statistics.median(fresh) if now and fresh else math.nan


def _in_words(results: Results) -> str:
    """Return a line that says up to which age each arm keeps 95 % of its fresh return, the longest first."""
    kept: dict[str, int] = {}
    for arm in ARMS:
        medians = [statistics.median(values) if (values := _values(results, arm, age)) else math.nan for age in AGES]
        stands = [median >= KEPT * medians[0] for median in medians]
        kept[arm] = AGES[stands.index(False) - 1] if False in stands else AGES[-1]
    order = sorted(kept, key=lambda arm: -kept[arm])
    standing = [f"{arm} up to {kept[arm]}" for arm in order if kept[arm]]
    others = ", ".join(arm for arm in order if not kept[arm])
    words = f"Keep {KEPT:.0%} of their fresh return: {', '.join(standing) or 'none'} updates."
    return f"{words} Not even at {AGES[1]}: {others}." if others else words


def picture(name: str) -> Picture:
    """Return the picture of a task: a line for each arm, with a point for each seed."""
    lines, results = [], read(file_of(name))
    for arm in ARMS:
        places = [(place, _values(results, arm, age)) for place, age in enumerate(AGES)]
        lines.append(Line(arm, [(float(place), statistics.median(values)) for place, values in places if values]))
        lines.append(Line(arm, [(float(place), each) for place, values in places for each in values], is_points=True))
    axis, labels = "age of the experience, updates", [f"{age:,}" for age in AGES]
    return Picture(TASKS[name].title, [Panel(axis, "final return", lines, x_labels=labels)], tuple(ARMS))


def _values(results: Results, arm: str, age: int) -> list[float]:
    return [run["value"] for run in results["sides"].get(side_of(arm, age), {}).values()]


def _cell(values: Sequence[float], fresh: float) -> str:
    if not values:
        return ""
    share = f"{statistics.median(values) / fresh:.0%}" if fresh > 0 else "-"
    return f"{share} ({min(values):.0f} to {max(values):.0f})"


if __name__ == "__main__":
    main()
