"""ACER's claim: more replay helps with the trust region; without it, much replay hurts or breaks.

Arms: the mean number of replayed batches after each fresh one, 0, 1, 4 and 8, with the trust region, and 4 and 8
without. Each arm is tuned over the same learning rates. The agent is the discrete one; `--preset acer_pendulum
--env Pendulum-v1` runs the continuous agent, which then also has a fresh batch before its replayed ones.
Source: Wang et al. 2017, figures 1 and 2, and section 4.
"""

from __future__ import annotations

import experiment

TASKS = {"CartPole-v1": 20_000, "Acrobot-v1": 20_000}
WITHOUT = {"algorithm.trust-region": float("inf")}


def arm(ratio: float, values: dict[str, float] | None = None) -> experiment.Arm:
    """Return the arm with a replay ratio."""
    label = f"ratio {ratio:g}" + (", no trust region" if values else "")
    return experiment.Arm(label, {"algorithm.replay-ratio": ratio, "algorithm.replay-fraction": 0.0, **(values or {})})


ARMS = [*(arm(ratio) for ratio in (0.0, 1.0, 4.0, 8.0)), *(arm(ratio, WITHOUT) for ratio in (4.0, 8.0))]
GRID = {"algorithm.learning-rate": (2e-3, 1e-3)}


def main() -> None:
    parser = experiment.parser(__doc__)
    parser.set_defaults(preset="acer_cartpole", tuning_seeds=1)
    experiment.run_claim(
        "acer_replay",
        "ACER: more replay, with and without the trust region",
        parser.parse_args(),
        TASKS,
        ARMS,
        GRID,
        shared={"stop-at-return": float("inf")},
    )


if __name__ == "__main__":
    main()
