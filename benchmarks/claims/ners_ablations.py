"""NERS without its parts: no global context, few features, learning from training episodes (NERS*), the code's loss.

Source: Oh et al. 2021 (NERS), figure 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import experiment
from samplers_compared import NERS, NERS_STAR, SHARED, UNIFORM, against, for_agents, run

TASKS = {"SparsePendulum-v0": 15_000, "LunarLanderContinuous-v3": 20_000}
PARTS = [
    UNIFORM,
    NERS,
    experiment.Arm("no global context", {**NERS.values, "replay.ners.global-context": False}),
    experiment.Arm("few features", {**NERS.values, "replay.ners.features": "few"}),
    NERS_STAR,
    experiment.Arm("scores not normalised", {**NERS.values, "replay.ners.normalizer": "none"}),
]
ARMS = for_agents(PARTS, {"SAC": "sac_sparse_pendulum"})


def conclude(task: str, num_steps: int, outcomes: Sequence[experiment.Outcome]) -> list[str]:
    return against(task, outcomes, "NERS")


def main() -> None:
    options = experiment.parser(__doc__)
    options.set_defaults(preset="sac_sparse_pendulum", tuning_seeds=0)
    experiment.run_claim(
        "ners_ablations",
        "NERS without its parts",
        options.parse_args(),
        TASKS,
        ARMS,
        {},
        shared=SHARED,
        run=run,
        conclude=conclude,
    )


if __name__ == "__main__":
    main()
