"""PER helps value learning on small discrete tasks where rewards are rare.

DQN with uniform draws, PER and PER by rank, where few steps say anything. Every arm is tuned over the same step sizes.
`per_actor_critics.py` is the other half of the claim.
Source: Schaul et al. 2016, figures 1 and 3.
"""

from __future__ import annotations

from samplers_compared import NOT_EVALUATED, PRIORITIES, STEP_SIZES, compare_samplers

TASKS = {"mini/DeepSea6-v0": 10_000, "mini/SparseCatch3-v0": 20_000}
# Random for the first half: an agent that never comes upon the reward says nothing of samplers.
SETTINGS = {"network.torso": "mlp", "network.hidden-sizes": (64, 64), "algorithm.epsilon-updates": 5_000}


def main() -> None:
    compare_samplers(
        "per_value_learning",
        "PER with value learning",
        __doc__,
        PRIORITIES,
        {"DQN": "dqn_mini"},
        "uniform",
        tasks=TASKS,
        grid=STEP_SIZES,
        changes=NOT_EVALUATED | SETTINGS,
    )


if __name__ == "__main__":
    main()
