"""ReF-ER's first and second claim: it keeps the policy near its behaviours, and so keeps DDPG and NAF stable.

Arms: DDPG without bounds on its policy, with ReF-ER at three values of C, with plain replay, and with replay
prioritised by rank; `--preset naf_pendulum` runs NAF instead. Reported beside returns: the mean divergence of the
policy from the behaviours in a batch, in nats, and the fraction of stored steps that are far-policy, which ReF-ER
should hold at D = 0.1. Without ReF-ER, DDPG's exploration noise drifts (Ornstein-Uhlenbeck), as in the paper. C and the
learning rate are annealed to the same share over a run of any length. Presets of the paper's length keep their learning
rate; the short ones are tuned. `--preset ddpg --env HalfCheetah-v5 --scale 334` is one of the paper's tasks at the
paper's ten million steps.
Source: Novati and Koumoutsakos 2019, figures 2 to 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import experiment
import numpy as np

TASKS = {"Pendulum-v1": 30_000, "InvertedDoublePendulum-v5": 30_000, "InvertedPendulum-v5": 30_000}
PLAIN = {"algorithm.refer.enabled": False, "replay.remover": "fifo"}
DRIFTING = {"algorithm.exploration": "ornstein_uhlenbeck"}
# The paper draws no share uniformly.
RANKED = {
    "replay.sampler": "rank",
    "replay.priority-exponent": 0.25,
    "replay.priority-uniform": 0.0,
    "replay.importance-exponent": 0.5,
}
GRID = {"algorithm.learning-rate": (1e-3, 3e-4)}
# Over the whole run: 5e-7 per update, and the paper makes one update per env step.
_ANNEALED = 5.0
METRICS = ("kl_from_behaviour", "stored_far_fraction", "refer_beta")


def arms_for(preset: str) -> list[experiment.Arm]:
    """Return the arms; as in the paper, noise drifts only for DDPG with plain replay."""
    plain = PLAIN | (DRIFTING if preset.startswith("ddpg") else {})
    return [
        *(experiment.Arm(f"ReF-ER, C = {c}", {"algorithm.refer.c": float(c)}) for c in (2, 4, 8)),
        experiment.Arm("plain replay", plain),
        experiment.Arm("plain replay, prioritised by rank", plain | RANKED),
    ]


def run(job: experiment.Job) -> dict[str, Any]:
    """Train once, annealed like the paper's ten million steps; compiled, which halves the time."""
    changes = {
        "num-envs": 1,
        "algorithm.refer.annealing": _ANNEALED / job.values["steps"],
        "learner.compile": "on",
        "actor.compile": "on",
    }
    return experiment.run_job(dataclasses.replace(job, values=changes | dict(job.values)))


def conclude(task: str, num_steps: int, outcomes: Sequence[experiment.Outcome]) -> list[str]:
    lines = []
    for outcome in outcomes:
        numbers = [f"{name} {np.median(outcome.numbers[name]):.3g}" for name in METRICS if name in outcome.numbers]
        # Large for a run that has lost what it had learned.
        lost = outcome.returns.max(1) - outcome.final
        lines.append(f"{task}: {outcome.label}: {', '.join(numbers)}; lost since its best {experiment.spread(lost)}")
    return lines


def main() -> None:
    options = experiment.parser(__doc__)
    options.set_defaults(preset="ddpg_pendulum")
    arguments = options.parse_args()
    name = f"refer_distance_{arguments.preset.partition('_')[0]}"
    grid = GRID if arguments.preset.endswith("_pendulum") else {}
    title = "Replay near and far from the policy"
    arms = arms_for(arguments.preset)
    experiment.run_claim(name, title, arguments, TASKS, arms, grid, run=run, conclude=conclude)


if __name__ == "__main__":
    main()
