"""NERS against uniform draws, PER and ERO, with SAC and TD3.

Tasks of the paper that two cores manage: the pendulum with sparse rewards, and LunarLanderContinuous (needs Box2D: the
`box2d` extra). Arms share every setting; nothing is tuned. Intervals are of means over seeds, and differences are
seed by seed: where an interval holds 0, these runs show no difference.
Source: Oh et al. 2021 (NERS), figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import experiment
from samplers_compared import SAMPLERS, SHARED, against, for_agents, run

TASKS = {"SparsePendulum-v0": 15_000, "LunarLanderContinuous-v3": 20_000}
ARMS = for_agents(SAMPLERS, {"SAC": "sac_sparse_pendulum", "TD3": "td3_sparse_pendulum"})


def conclude(task: str, num_steps: int, outcomes: Sequence[experiment.Outcome]) -> list[str]:
    return against(task, outcomes, "uniform")


def main() -> None:
    options = experiment.parser(__doc__)
    options.set_defaults(preset="sac_sparse_pendulum", tuning_seeds=0)
    experiment.run_claim(
        "ners_returns",
        "Samplers with SAC and TD3",
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
