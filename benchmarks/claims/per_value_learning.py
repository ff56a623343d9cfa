"""PER helps value learning on small discrete tasks, and not the continuous actor-critics.

DQN with uniform draws, PER and PER by rank on tasks whose rewards are rare, where few steps say anything; SAC and TD3
on Pendulum-v1. Every arm is tuned over the same step sizes.
Source: Schaul et al. 2016, figures 1 and 3; Oh et al. 2021 (NERS), section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import experiment
from samplers_compared import PER, PRESET, SHARED, UNIFORM, against, for_agents, run

TASKS = {"mini/DeepSea8-v0": 10_000, "mini/SparseCatch3-v0": 20_000, "Pendulum-v1": 8_000}
VALUE = {"DQN": "dqn_mini"}
ACTOR_CRITICS = {"SAC": "sac_pendulum", "TD3": "td3_pendulum"}
RANK = experiment.Arm("rank", {"replay.sampler": "rank"})
GRID = {"algorithm.learning-rate": (1e-3, 3e-4)}
FLAT = {"network.torso": "mlp", "network.hidden-sizes": (64, 64)}


def run_on(job: experiment.Job) -> dict:
    """Train once, if the task is one for the arm's agent; else say that it is not."""
    values = dict(job.values)
    if values[PRESET] == "dqn_mini" and not values["env"].startswith("mini/Pixel"):
        values |= FLAT
    return run(experiment.Job(job.preset, values, job.seed))


def conclude(task: str, num_steps: int, outcomes: Sequence[experiment.Outcome]) -> list[str]:
    return against(task, outcomes, "uniform")


def main() -> None:
    options = experiment.parser(__doc__)
    options.set_defaults(preset="dqn_mini", tuning_seeds=1)
    arguments = options.parse_args()
    for name, title, agents, tasks in (
        ("per_value_learning", "PER with value learning", VALUE, [task for task in TASKS if task.startswith("mini/")]),
        ("per_actor_critics", "PER with actor-critics", ACTOR_CRITICS, ["Pendulum-v1"]),
    ):
        experiment.run_claim(
            name,
            title,
            arguments,
            {task: TASKS[task] for task in tasks},
            for_agents([UNIFORM, PER, RANK], agents),
            GRID,
            shared=SHARED | {"evaluation.interval": 0},
            run=run_on,
            conclude=conclude,
        )


if __name__ == "__main__":
    main()
