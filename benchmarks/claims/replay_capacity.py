"""LASER's second claim: a larger replay is better, or at least no worse.

Arms: capacity in env steps, with 7/8 of each batch replayed.
Source: Schmitt et al. 2020, figure 2 (right).
"""

from __future__ import annotations

import experiment

TASKS = {"mini/SparseCatch3-v0": 40_000, "mini/KeyDoor4-v0": 30_000}
ARMS = [
    experiment.Arm(f"{capacity:,} env steps", {"replay.capacity-steps": capacity})
    for capacity in (1_000, 10_000, 100_000)
]
GRID = {"algorithm.learning-rate": (1e-3, 3e-4, 3e-3)}


def main() -> None:
    options = experiment.parser(__doc__).parse_args()
    experiment.run_claim("replay_capacity", "How much the replay holds", options, TASKS, ARMS, GRID)


if __name__ == "__main__":
    main()
