"""Returns of agents that learn from a log alone, beside the log's own, for several algorithms and tasks.

    python benchmarks/offline.py cartpole --seeds 1    # measure what is missing
    python benchmarks/results.py --page                # write the page

A log is the whole replay of one training run, from its first random episodes to its last ones, so its mean return is
far below that of the agent at the end. Each algorithm learns from it without the environment, and then plays 20
episodes. Logs without statistics of their behaviour get fitted ones; these are taken out of every log here.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import measure
from row_files import Finding, Results, machines, mark, measure_missing, measured, read, verdict

from laser.environments import EnvironmentConfig, describe_environment
from laser.logs.minari_log import MinariLog, write_minari

RANDOM = {"cartpole": 24.1, "pendulum": -1239.6, "hopper": 17.5}
"""Mean returns of random play, from which gains over a log are counted; measured over 200 episodes."""
TO_REACH, _ALGORITHMS_TO_REACH = 1.2, 4
_MADE, _WITHOUT_MU = "minari:made/whole-v0", "minari:made/log-v0"


@dataclass(frozen=True)
class Task:
    """A task: its title, the run that makes the log, the steps of learning, and by algorithm how it is trained."""

    title: str
    env: str
    made_by: str
    steps: int
    sides: dict[str, str]
    seeds: tuple[int, ...] = (11, 12, 13, 14, 15)


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        "CartPole-v1",
        "cartpole --steps 14000 --replay.capacity-steps 20000 --algorithm.discount 0.98",
        25_000,
        {
            "LASER": "cartpole --algorithm.discount 0.98 --replay.capacity-steps 10000",
            "ACER": "acer_cartpole",
            "Reactor": "reactor_cartpole",
            "DQN": "dqn_cartpole",
            "Rainbow": "rainbow --network.torso mlp --replay.min-steps 1000",
        },
    ),
    "pendulum": Task(
        "Pendulum-v1",
        "Pendulum-v1",
        "sac_pendulum --steps 8000 --replay.capacity-steps 10000",
        15_000,
        {
            "SAC": "sac_pendulum --algorithm.clone-cost 0.1",
            "TD3": "td3_pendulum",
            "DDPG, ReF-ER": "ddpg_pendulum",
            "RACER": "racer_pendulum",
            "ACER": "acer_pendulum",
            "NAF": "naf_pendulum --algorithm.refer.enabled false",
        },
        (12, 13, 14, 15, 16),  # seed 11 chose SAC's clone cost, and NAF without ReF-ER
    ),
    "hopper": Task(
        "Hopper-v5",
        "Hopper-v5",
        "sac --env Hopper-v5 --steps 100000 --replay.capacity-steps 120000",
        100_000,
        {"SAC": "sac", "TD3": "td3", "DDPG, ReF-ER": "ddpg", "RACER": "racer", "LASER": "hopper"},
        (11, 12, 13),
    ),
}


def main() -> None:
    """Measure what the files of the tasks lack."""
    parser = measure.parser(__doc__)
    parser.add_argument("tasks", nargs="+", choices=list(TASKS), help="tasks to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many seeds; 0: all of the task")
    options = parser.parse_args()
    for name in options.tasks:
        task = TASKS[name]
        with tempfile.TemporaryDirectory() as place:
            os.environ["MINARI_DATASETS_PATH"] = place
            for seed in task.seeds[: options.seeds or None]:
                log = Log(task, seed, Path(place))
                measure_missing(file_of(name), [(side, seed) for side in task.sides], partial(learn, task, log), _SAID)


_SAID = ("value", "log", "seconds")


class Log:
    """The log of a seed, made when it is first asked for.

    Args:
        task: the task.
        seed: of the run that makes it.
        place: a directory for that run.
    """

    def __init__(self, task: Task, seed: int, place: Path):
        self._task, self._seed, self._place = task, seed, place
        self._mean_return: float | None = None
        self.name = _WITHOUT_MU.replace("log", f"log{seed}")

    @property
    def mean_return(self) -> float:
        """The mean return of its episodes."""
        if self._mean_return is None:
            self._mean_return = self._make()
        return self._mean_return

    def _make(self) -> float:
        run_dir, whole = self._place / f"run{self._seed}", _MADE.replace("whole", f"whole{self._seed}")
        words = f"{self._task.made_by} --stop-at-return inf --checkpoint-replay --seed {self._seed}"
        command = [*measure.LASER, "train", *words.split(), "--run-dir", run_dir, "--quiet", "--json"]
        measure.run_json(command, timeout_s=2 * 3600.0)
        made = measure.run_json([*measure.LASER, "replay", "export", run_dir, whole, "--json"], timeout_s=600.0)
        environment = describe_environment(self._task.env, EnvironmentConfig())
        log = MinariLog(whole, environment)
        episodes = (replace(log.episode(number), mu={}, versions=None) for number in range(len(log)))
        write_minari(self.name, environment, episodes, "made")
        return float(made["mean_return"])


def learn(task: Task, log: Log, side: str, seed: int) -> dict[str, Any]:
    """Return the `value` that an algorithm reaches over 20 episodes, the `log`'s mean return, and `seconds`."""
    mean_return = log.mean_return
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "run"
        words = f"{task.sides[side]} --env {task.env} --offline {log.name} --steps {task.steps} --stop-at-return inf"
        command = [*measure.LASER, "train", *words.split(), "--seed", seed, "--run-dir", run_dir, "--quiet", "--json"]
        trained = measure.run_json(command, timeout_s=4 * 3600.0)
        played = measure.run_json([*measure.LASER, "eval", run_dir, "--episodes", 20, "--json"], timeout_s=600.0)
    return {
        "value": round(played["mean_return"], 2),
        "log": round(mean_return, 2),
        "seconds": round(trained["seconds"], 1),
    }


def file_of(name: str) -> str:
    """Return the name of a task's file."""
    return f"offline_{name}"


def measured_tasks() -> list[str]:
    """Return the names of the tasks that have a file."""
    return [name for name in TASKS if measured([file_of(name)])]


def section(names: Sequence[str]) -> list[str]:
    """Return the lines of the measured tasks for docs/results.md."""
    found = {name: read(file_of(name)) for name in names}
    lines = [
        "",
        "## From a log alone",
        "",
        "A log is the replay of a whole training run, without statistics of its behaviour; medians over seeds (lowest",
        "to highest) of 20 episodes after training, and how many times the log's gain over random play that is.",
        f"To reach: {TO_REACH:g} times for {_ALGORITHMS_TO_REACH} algorithms.",
        f"`python benchmarks/offline.py {' '.join(names)}`, {machines(*found.values())}.",
        "",
        "| task | the log | learned from it | |",
        "|---|---|---|---|",
    ]
    for name, results in found.items():
        task = TASKS[name]
        logged = _spread([run["log"] for run in next(iter(results["sides"].values())).values()])
        times = _times(name, results)
        learned = [
            f"{side} {_spread([run['value'] for run in runs.values()])}{mark(runs)}: {times[side]:.1f} times"
            for side, runs in results["sides"].items()
        ]
        num_seeds = len(next(iter(results["sides"].values())))
        cells = [f"{task.title}, {num_seeds} seeds", logged, "; ".join(learned), verdict(_is_reached(times))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def findings() -> list[Finding]:
    """Return what the measured tasks say of the aim."""
    is_reached = {name: _is_reached(_times(name, read(file_of(name)))) for name in measured_tasks()}
    return [Finding("learning from a log alone", TASKS[name].title, known) for name, known in is_reached.items()]


def _times(name: str, results: Results) -> dict[str, float]:
    """Return by algorithm how many times the log's gain over random play it gains, the median over seeds."""
    return {
        side: statistics.median((run["value"] - RANDOM[name]) / (run["log"] - RANDOM[name]) for run in runs.values())
        for side, runs in results["sides"].items()
    }


def _is_reached(times: Mapping[str, float]) -> bool:
    return sum(each >= TO_REACH for each in times.values()) >= _ALGORITHMS_TO_REACH


def _spread(values: Sequence[float]) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


if __name__ == "__main__":
    main()
