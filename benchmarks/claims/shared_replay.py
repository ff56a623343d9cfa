"""LASER's third claim: members that share one replay learn worse without the trust region, and better with it.

A sweep of four members (two learning rates, two entropy costs) trains with a replay for each, and with one for all.
Target: with the trust region, the shared sweep reaches the final return of the unshared sweep in at most 0.6 of the env
steps per member, for the best and for the mean member. The claim is conditional: with a fast critic, foreign experience
does no harm without the trust region either.
Source: Schmitt et al. 2020, figure 3 (left).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import experiment
import numpy as np

TASKS = {
    "mini/DeepSea10-v0": 30_000,
    "mini/SparseCatch3-v0": 25_000,
    "mini/KeyDoor5-v0": 40_000,
    "mini/KeyDoor6-v0": 40_000,
}
MEMBERS = {"algorithm.learning-rate": [5e-4, 2e-3], "algorithm.entropy-cost": [3e-3, 1e-2]}
ALONE, SHARED = {"sweep/share": False}, {"sweep/share": True}
ARMS = [
    experiment.Arm("not shared", {**ALONE, "algorithm.trust-region-threshold": 0.1}),
    experiment.Arm("shared, threshold 0.03", {**SHARED, "algorithm.trust-region-threshold": 0.03}),
    experiment.Arm("shared, threshold 0.1", {**SHARED, "algorithm.trust-region-threshold": 0.1}),
    experiment.Arm("shared, no trust region", {**SHARED, "algorithm.trust-region-threshold": np.inf}),
]


def main() -> None:
    options = experiment.parser(__doc__).parse_args()
    experiment.run_claim(
        "shared_replay",
        "Four members, one replay or four",
        options,
        TASKS,
        ARMS,
        {},
        shared={"sweep/grid": MEMBERS},
        run=experiment.run_sweep,
        conclude=speed_ups,
    )


def speed_ups(task: str, num_steps: int, outcomes: Sequence[experiment.Outcome]) -> list[str]:
    """Return how soon each arm reaches the final return of the unshared sweep, for the mean and for the best member."""
    base, lines = outcomes[0], []
    tail = max(1, experiment.NUM_POINTS // 10)
    curves: Mapping[str, tuple[np.ndarray, list[np.ndarray]]] = {
        "mean member": (base.returns, [outcome.returns for outcome in outcomes]),
        "best member": (base.best, [outcome.best for outcome in outcomes]),
    }
    for who, (reference, rows) in curves.items():
        # The last part of a curve that ends at its plateau is noise: 95 % of the rise counts as reached.
        bottom, top = np.median(reference[:, 0]), np.median(reference[:, -tail:])
        goal = bottom + 0.95 * (top - bottom)
        needed = [np.median(experiment.steps_to(row, goal, num_steps)) for row in rows]
        for outcome, steps in zip(outcomes[1:], needed[1:], strict=True):
            ratio = f"{steps / needed[0]:.2f} of" if np.isfinite(steps) else "never within"
            lines.append(f"{task}: {outcome.label}, {who}: return {goal:.2f} in {ratio} the env steps of {base.label}")
    return lines


if __name__ == "__main__":
    main()
