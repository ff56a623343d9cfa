"""NERS beside its controls: does it learn from the agent's returns what to replay, and is there anything to learn?

    python benchmarks/ners_controls.py returns planted --seeds 1      # measure what is missing
    python benchmarks/results.py --page                               # write the page

`returns`: SAC on the pendulum with sparse rewards, with NERS, with NERS that hears its rewards with a random sign, and
with draws that are tilted in a fixed way. `planted`: NERS with a return that is the share of one kind of steps among
its draws, over the steps it learns from at each evaluation. A finished run is in the question's file at once.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import final_return
import measure
from row_files import Results, machines, measure_missing, measured, read

from launch.records.metrics_db import read_series

STEPS = 15_000
SEEDS = (11, 12, 13, 14, 15, 16, 17, 18)
INTERVAL = 200
_TASK = (
    "sac_sparse_pendulum --replay.priority-exponent 0.5 --replay.importance-exponent 0.4 --replay.priority-uniform 0 "
    f"--evaluation.interval {INTERVAL} --evaluation.episodes 1 --evaluation.num-envs 1 --evaluation.greedy "
    "--learner.compile on --actor.compile on --learner.torch-threads 1"
)
_RATE = "learning-rate 6e-4"
_UNIFORM = "uniform draws"
_TILT = "--replay.sampler ners_rules:Tilted --replay.sampler-settings.by"
_FEWER = "--replay.sampler-settings.strength -1"
RETURNS = {
    _UNIFORM: "--replay.sampler uniform",
    "NERS": f"--replay.sampler ners --replay.ners.{_RATE}",
    "NERS, rewards with a random sign": (
        f"--replay.sampler ners_rules:RandomSignNers --replay.sampler-settings.{_RATE}"
    ),
    "large TD errors": f"{_TILT} td_error",
    "small TD errors": f"{_TILT} td_error {_FEWER}",
    "large Q": f"{_TILT} q",
    "small Q": f"{_TILT} q {_FEWER}",
    "late steps": f"{_TILT} time",
    "early steps": f"{_TILT} time {_FEWER}",
}
"""By arm, the arguments that choose its sampler."""
_TILTS = tuple(arm for arm, words in RETURNS.items() if words.startswith(_TILT))
_SIZES = (128, 1_280, 6_400, 25_600)
PLANTED = {
    f"{size:,} steps a lesson": (
        f"--replay.sampler ners_rules:PlantedNers --replay.sampler-settings.{_RATE} "
        f"--replay.sampler-settings.batch-size {size}"
    )
    for size in _SIZES
}


@dataclass(frozen=True)
class Question:
    """One question: its arms, and the number of a run that answers it."""

    title: str
    arms: dict[str, str]
    seeds: tuple[int, ...]
    value: Callable[[Path], float]

    def train(self, arm: str, seed: int) -> dict[str, Any]:
        """Return `value` and `seconds` of a run."""
        words = f"{_TASK} {self.arms[arm]}".split()
        return final_return.measured_run(words, STEPS, seed, self.value, Path(__file__).parent)


def mean_return(database: Path) -> float:
    """Return the mean over all evaluations of a run: how much it has learned, and how soon."""
    return statistics.fmean(value for _, value in read_series(database, "evaluation/mean_return"))


def early_share(database: Path) -> float:
    """Return the percentage of the planted kind among the draws of a run's last fifth; uniform draws have 50."""
    return 100.0 * final_return.last_mean(database, "sampler/early_share", STEPS)


QUESTIONS = {
    "returns": Question("returns beside uniform draws and fixed tilts", RETURNS, SEEDS, mean_return),
    "planted": Question("a planted return", PLANTED, SEEDS[:5], early_share),
}


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("questions", nargs="+", choices=list(QUESTIONS), help="questions to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many seeds; 0: all")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    options = parser.parse_args()
    for name in options.questions:
        question = QUESTIONS[name]
        cases = [(arm, seed) for seed in question.seeds[: options.seeds or None] for arm in question.arms]
        measure_missing(file_of(name), cases, question.train, ("value", "seconds"), options.jobs)


def file_of(name: str) -> str:
    """Return the name of a question's file."""
    return f"ners_{name}"


def measured_questions() -> list[str]:
    """Return the names of the questions that have a file."""
    return [name for name in QUESTIONS if measured([file_of(name)])]


def section(names: Sequence[str]) -> list[str]:
    """Return the lines for docs/results.md."""
    found = {name: read(file_of(name)) for name in names}
    lines = ["", "## Whether NERS learns what to replay", ""]
    if "returns" in found:
        lines += [
            f"SAC on SparsePendulum-v0, {STEPS:,} env steps, an evaluation every {INTERVAL}: mean return over all of "
            "them, medians over seeds (lowest to highest), and the seeds that are above uniform draws of the same seed."
        ]
        lines += ["", "| draws | mean return | above uniform |", "|---|---|---|"]
        lines += [_row(found["returns"], arm) for arm in RETURNS if arm not in _TILTS]
        tilts = [f"{arm} {_spread(found['returns'], arm)}" for arm in _TILTS if _runs(found["returns"], arm)]
        lines += ["", f"Draws in proportion to exp(z), z in standard deviations: {'; '.join(tilts)}."]
    if "planted" in found:
        planted = found["planted"]
        shares = [f"{arm} {_spread(planted, arm)}" for arm in PLANTED if _runs(planted, arm)]
        lines += [
            "A planted return, the percentage of draws from the first half of an episode (uniform: 50), after "
            f"{STEPS // INTERVAL} evaluations, by what is learned from at each: {'; '.join(shares)}."
        ]
    command = f"`python benchmarks/ners_controls.py {' '.join(names)}`, {machines(*found.values())}."
    return [*lines, f"Fewer than {len(SEEDS)} seeds decide nothing. {command}"]


def _runs(results: Results, arm: str) -> dict[str, float]:
    """Return the value of each seed."""
    return {seed: run["value"] for seed, run in results["sides"].get(arm, {}).items()}


def _spread(results: Results, arm: str) -> str:
    values = _runs(results, arm).values()
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}, n={len(values)})"


def _row(results: Results, arm: str) -> str:
    values, uniform = _runs(results, arm), _runs(results, _UNIFORM)
    if not values:
        return f"| {arm} | | |"
    both = [seed for seed in values if seed in uniform]
    above = sum(values[seed] > uniform[seed] for seed in both)
    return f"| {arm} | {_spread(results, arm)} | {'' if arm == _UNIFORM else f'{above} of {len(both)}'} |"


if __name__ == "__main__":
    main()
