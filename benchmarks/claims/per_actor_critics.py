"""PER does not help the continuous actor-critics.

SAC and TD3 with uniform draws, PER and PER by rank. Every arm is tuned over the same learning rates.
`per_value_learning.py` is the other half of the claim.
Source: Oh et al. 2021 (NERS), section 3.2.
"""

from __future__ import annotations

from samplers_compared import NOT_EVALUATED, PRIORITIES, STEP_SIZES, compare_samplers

TASKS = {"Pendulum-v1": 8_000}
AGENTS = {"SAC": "sac_pendulum", "TD3": "td3_pendulum"}


def main() -> None:
    compare_samplers(
        "per_actor_critics",
        "PER with actor-critics",
        __doc__,
        PRIORITIES,
        AGENTS,
        ["uniform"],
        tasks=TASKS,
        grid=STEP_SIZES,
        changes=NOT_EVALUATED,
    )


if __name__ == "__main__":
    main()
