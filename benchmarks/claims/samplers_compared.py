"""Shared parts of the claims about samplers: arms, tasks, and a preset for each agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import experiment
import numpy as np
from experiment import measure

UNIFORM = experiment.Arm("uniform", {"replay.sampler": "uniform"})
PER = experiment.Arm("PER", {"replay.sampler": "per"})
ERO = experiment.Arm("ERO", {"replay.sampler": "ero"})
NERS = experiment.Arm("NERS", {"replay.sampler": "ners"})
NERS_STAR = experiment.Arm("NERS*", {"replay.sampler": "ners", "replay.ners.reward": "training"})
# Tells what is due to NERS' learning: a step never drawn weighs more than others here too, as its score is 1 and theirs
# are about a half.
NOT_LEARNED = experiment.Arm("scores not learned", {**NERS.values, "replay.ners.learning-rate": 1e-12})
SAMPLERS = [UNIFORM, PER, ERO, NERS]
# Paper's alpha and beta; no share of PER's draws is uniform there. As in the paper a sampler learns from one episode
# about as often as the longest one lasts; that is 75 to 100 times in these short runs, in place of 500 to 2,500. Its
# step size is six times the paper's; scores then deviate by 0.03 to 0.2 at the end.
SHARED = {
    "replay.priority-exponent": 0.5,
    "replay.importance-exponent": 0.4,
    "replay.priority-uniform": 0.0,
    "replay.ners.learning-rate": 6e-4,
    "replay.ero.learning-rate": 6e-4,
    "evaluation.interval": 200,
    "evaluation.episodes": 1,
    "evaluation.num-envs": 1,
    "evaluation.greedy": True,
    "learner.compile": "on",
    "actor.compile": "on",
}
RANK = experiment.Arm("rank", {"replay.sampler": "rank"})
PRIORITIES = [UNIFORM, PER, RANK]
# For claims about priorities, whose arms are tuned and need no evaluation while they train.
STEP_SIZES = {"algorithm.learning-rate": (1e-3, 3e-4)}
NOT_EVALUATED = {"evaluation.interval": 0}
# Metrics that show whether a sampler has learned, and how uneven its draws are.
LEARNED = {"deviation of scores": "sampler/score_std", "effective draws": "effective_draws"}
PRESET = "claim/preset"
TASKS = {"SparsePendulum-v0": 15_000, "LunarLanderContinuous-v3": 20_000}


def compare_samplers(
    name: str,
    title: str,
    description: str | None,
    arms: Sequence[experiment.Arm],
    presets: Mapping[str, str],
    bases: Sequence[str],
    *,
    tasks: Mapping[str, int] = TASKS,
    grid: Mapping[str, Sequence[Any]] | None = None,
    changes: Mapping[str, Any] | None = None,
    curve: str = experiment.TRAINING,
) -> None:
    """Run a claim about samplers from the command line.

    Args:
        name: of the files.
        title: of the picture.
        description: for `--help`.
        arms: samplers.
        presets: preset by the agent's name.
        bases: the arms that the others are compared with.
        tasks: env steps by environment id.
        grid: values by key, over which each arm is tuned; None: no tuning.
        changes: to the settings that all arms share.
        curve: the metric of returns.
    """
    options = experiment.parser(description)
    options.set_defaults(preset=next(iter(presets.values())), tuning_seeds=2 if grid else 0)
    experiment.run_claim(
        name,
        title,
        options.parse_args(),
        dict(tasks),
        for_agents(arms, presets),
        grid or {},
        shared=SHARED | dict(changes or {}),
        run=run,
        curve=curve,
        conclude=lambda task, num_steps, outcomes: against(task, outcomes, bases),
    )


def run(job: experiment.Job) -> dict[str, Any]:
    """Train once, from the arm's own preset if it has one."""
    values = dict(job.values)
    preset = values.pop(PRESET, job.preset)
    return experiment.run_job(dataclasses.replace(job, preset=preset, values=values))


def for_agents(arms: Sequence[experiment.Arm], presets: Mapping[str, str]) -> list[experiment.Arm]:
    """Return every arm with every agent.

    Args:
        arms: samplers.
        presets: preset by the agent's name.
    """
    return [
        experiment.Arm(f"{agent}, {arm.label}", {**arm.values, PRESET: preset})
        for agent, preset in presets.items()
        for arm in arms
    ]


def mean_interval(values: np.ndarray) -> str:
    """Say `mean +- half of its 95 % interval`."""
    mean, half = measure.mean_interval(values.tolist())
    return f"{mean:.4g} +- {half:.2g}"


def against(task: str, outcomes: Sequence[experiment.Outcome], bases: Sequence[str]) -> list[str]:
    """Compare each arm, seed by seed and agent by agent, with the arms whose labels end in `bases`, if these ran."""
    lines = []
    agents = {outcome.label.rpartition(", ")[0] for outcome in outcomes}
    for agent in sorted(agents):
        mine = {name: each for each in outcomes for of, _, name in [each.label.rpartition(", ")] if of == agent}
        for outcome in mine.values():
            what = f"{task}, {outcome.label}: area {mean_interval(outcome.area)}"
            for base in bases:
                if base not in mine or outcome is mine[base]:
                    continue
                more, half = measure.mean_interval((outcome.area - mine[base].area).tolist())
                what += f", {more:+.3g} +- {half:.2g} over {base}" + ("" if abs(more) > half else ": within noise")
            learned = [
                f"{name} {np.median(outcome.numbers[key]):.3g}"
                for name, key in LEARNED.items()
                if key in outcome.numbers
            ]
            what += f" ({', '.join(learned)})" if learned else ""
            lines.append(what)
    return lines
