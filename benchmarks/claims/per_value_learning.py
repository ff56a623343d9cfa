"""PER helps value learning on small discrete tasks where rewards are rare.

DQN with uniform draws, PER and PER by rank. All actions are random, so that every arm has the same experience, seed by
seed. Learning begins with half of the experience, and greedy evaluations show when the task is solved. Every arm is
tuned over the same learning rates. `per_actor_critics.py` is the other half of the claim.
Source: Schaul et al. 2016, section 3.1 and figures 1 and 3.
"""

from __future__ import annotations

import experiment
from samplers_compared import PRIORITIES, STEP_SIZES, compare_samplers

TASKS = {"mini/DeepSea10-v0": 60_000, "mini/SparseCatch3-v0": 60_000}
SETTINGS = {
    "network.torso": "mlp",
    "network.hidden-sizes": (64, 64),
    "algorithm.epsilon": 1.0,
    "algorithm.num-steps": 1,  # returns of several steps would be those of random actions
    "replay.min-steps": 30_000,
    "replay.samples-per-insert": 4.0,  # an update per eight env steps
    "evaluation.interval": 500,
    "evaluation.episodes": 10,
    "evaluation.num-envs": 10,
}


def main() -> None:
    compare_samplers(
        "per_value_learning",
        "PER with value learning",
        __doc__,
        PRIORITIES,
        {"DQN": "dqn_mini"},
        ["uniform"],
        tasks=TASKS,
        grid=STEP_SIZES,
        changes=SETTINGS,
        curve=experiment.EVALUATIONS,
    )


if __name__ == "__main__":
    main()
