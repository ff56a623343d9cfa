"""Reactor's second claim: leave-one-out gradients earn at least what truncated importance sampling does.

Small tasks with a recurrent agent that learns only from the replay; only the estimator of the policy gradient differs.
Returns of different tasks are compared by rank, by Elo (truncated importance sampling has 0), and by the probability
that a run of one estimator earns more than a run of another on a task drawn at random.
Source: Gruslys et al. 2017 (the Reactor), sections 2.2, 4.1 and 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import experiment
import numpy as np

from laser.scoring.elo import elo_ratings, has_finite_ratings
from laser.scoring.ranks import mean_ranks, mean_winning_probabilities, winning_probabilities

TASKS = {
    "mini/Catch-v0": 25_000,
    "mini/SparseCatch2-v0": 25_000,
    "mini/TMaze5-v0": 25_000,
    "mini/KeyDoor3-v0": 25_000,
}
ESTIMATORS = {
    "leave-one-out, beta = 1": ("leave_one_out", 1.0),
    "leave-one-out, beta = min(5, 1/mu)": ("leave_one_out", 5.0),
    "importance sampling, truncated at 5": ("importance_sampling", 5.0),
    "importance sampling": ("importance_sampling", float("inf")),
}
ZERO = "importance sampling, truncated at 5"
ARMS = [
    experiment.Arm(label, {"algorithm.estimator": estimator, "algorithm.clip": clip})
    for label, (estimator, clip) in ESTIMATORS.items()
]
GRID = {"algorithm.entropy-cost": [0.1, 0.3]}


def compare_all(tasks: Mapping[str, Sequence[experiment.Outcome]]) -> list[str]:
    """Return mean ranks, Elo and winning probabilities over tasks, of the final return and of the area."""
    lines = []
    labels = [outcome.label for outcome in next(iter(tasks.values()))]
    for what in ("final", "area"):
        scores = np.array([[getattr(tasks[task][place], what) for task in tasks] for place in range(len(labels))])
        probabilities = winning_probabilities(scores)
        ranks, chances = mean_ranks(np.median(scores, -1)), mean_winning_probabilities(probabilities)
        # Every pair of seeds of every task is a game; half a win is added each way, in case one side never loses.
        wins = probabilities * scores.shape[1] * scores.shape[2] ** 2
        elo = elo_ratings(wins, labels.index(ZERO), 0.0 if has_finite_ratings(wins) else 0.5)
        lines += [
            f"{what}: {label}: mean rank {ranks[place]:.2f}, Elo {elo[place]:+.0f}, earns more than another with "
            f"probability {chances[place]:.2f}"
            for place, label in enumerate(labels)
        ]
    return lines


def main() -> None:
    made = experiment.parser(__doc__)
    made.set_defaults(preset="reactor_mini")
    experiment.run_claim(
        "reactor_estimators",
        "Estimators of Reactor's policy gradient",
        made.parse_args(),
        TASKS,
        ARMS,
        GRID,
        conclude_all=compare_all,
    )


if __name__ == "__main__":
    main()
