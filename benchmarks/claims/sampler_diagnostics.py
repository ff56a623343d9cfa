"""Samplers' draws: PER draws the highest TD errors with the lowest spread of Q, NERS a wide spread of both.

SAC on Pendulum-v1, 10,000 steps of which 1,000 are random, as in the paper's table 3. Reports the standard deviation of
the TD errors and of Q, the mean size of the errors and the mean Q over the items drawn in the later half of each run,
and the standard deviations over the stored items.
Source: Oh et al. 2021 (NERS), table 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import experiment
import numpy as np
from samplers_compared import SAMPLERS, SHARED, mean_interval, run

TASKS = {"Pendulum-v1": 10_000}
SHOWN = {
    "std of TD errors": "sampled_td_error/std",
    "std of Q": "sampled_q/std",
    "mean size of TD errors": "sampled_abs_td_error/mean",
    "mean of Q": "sampled_q/mean",
    "std of TD errors stored": "stored_td_error/std",
    "std of Q stored": "stored_q/std",
    "effective draws": "effective_draws",
    "median times replayed": "times_replayed/p50",
    "most times replayed": "times_replayed/max",
}


def conclude(task: str, num_steps: int, outcomes: Sequence[experiment.Outcome]) -> list[str]:
    lines = []
    for outcome in outcomes:
        numbers = [
            f"{what} {mean_interval(np.array(outcome.numbers[name]))}"
            for what, name in SHOWN.items()
            if name in outcome.numbers
        ]
        lines.append(f"{task}, {outcome.label}: {'; '.join(numbers)}")
    for what in ("std of TD errors", "std of Q"):
        ranked = sorted(outcomes, key=lambda outcome: -np.mean(outcome.numbers[SHOWN[what]]))
        lines.append(f"{task}, {what}, largest first: {', '.join(outcome.label for outcome in ranked)}")
    return lines


def main() -> None:
    options = experiment.parser(__doc__)
    options.set_defaults(preset="sac_pendulum", tuning_seeds=0)
    experiment.run_claim(
        "sampler_diagnostics",
        "Returns beside what samplers draw",
        options.parse_args(),
        TASKS,
        SAMPLERS,
        {},
        shared=SHARED | {"evaluation.interval": 100},
        run=run,
        conclude=conclude,
    )


if __name__ == "__main__":
    main()
