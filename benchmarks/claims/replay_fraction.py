"""LASER's first claim: a learner on replayed experience alone fails or is slow, mixing in fresh experience works.

Arms: the share of each batch that is replayed, at equal env steps. The paper rewards entropy on fresh experience only,
so the arm without fresh experience runs twice: without entropy, and with it on replayed experience.
Source: Schmitt et al. 2020, figure 2 (left); what to expect is in section 3.1 there.
"""

from __future__ import annotations

import experiment

TASKS = {"mini/SparseCatch3-v0": 40_000, "mini/KeyDoor4-v0": 30_000}
# A batch of 16 with 1/8 fresh learns from 8 steps per env step; the arm without fresh experience uses the same number.
ALL_REPLAYED = {"algorithm.replay-fraction": 1.0, "replay.samples-per-insert": 8.0}
ARMS = [
    experiment.Arm("fresh only", {"algorithm.replay-fraction": 0.0}),
    experiment.Arm("1/2 replayed", {"algorithm.replay-fraction": 0.5}),
    experiment.Arm("7/8 replayed", {"algorithm.replay-fraction": 0.875}),
    experiment.Arm("all replayed, no entropy", {**ALL_REPLAYED, "algorithm.entropy-on": "fresh"}),
    experiment.Arm("all replayed, entropy on replay", {**ALL_REPLAYED, "algorithm.entropy-on": "all"}),
]
GRID = {"algorithm.learning-rate": (1e-3, 3e-4, 3e-3)}


def main() -> None:
    options = experiment.parser(__doc__).parse_args()
    experiment.run_claim(
        "replay_fraction",
        "Replayed alone, fresh alone, and mixed (trust region on)",
        options,
        TASKS,
        ARMS,
        GRID,
    )


if __name__ == "__main__":
    main()
