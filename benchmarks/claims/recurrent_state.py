"""LASER's fifth claim: recomputed recurrent states beat stored ones, which collapse when the replay is shared.

The task asks at every step for the card of three steps before, so half the answers of an unroll need the state it
begins with. Each arm replays either whole episodes whose states are recomputed as they are walked, or unrolls that
begin with the state their actor had, or with zeros; in a sweep of members that each have a replay, and in one whose
members share theirs.
Source: Schmitt et al. 2020, section 3.2 and appendix A.2.
"""

from __future__ import annotations

import experiment

TASKS = {"mini/RepeatPrevious3-v0": 40_000}
SHARED = {
    "network.core": "lstm",
    "network.core-size": 32,
    "algorithm.replay-fraction": 0.75,
    # A gradient reaches from half of the answers back to their card; of the other half only the state can tell.
    "unroll-length": 6,
    # Each answer is paid at once, a 21st of what an episode pays.
    "algorithm.reward-scale": 10.0,
    "algorithm.discount": 0.9,
    "sweep/grid": {"algorithm.learning-rate": [3e-3, 5e-3], "algorithm.entropy-cost": [1e-2, 2e-2]},
}
STATES = {"recomputed": "stream", "stored": "stored", "zero": "zero"}
ARMS = [
    experiment.Arm(
        f"{label}, {'shared' if share else 'not shared'}",
        {"learner.replay-core-state": state, "sweep/share": share},
    )
    for share in (False, True)
    for label, state in STATES.items()
]


def main() -> None:
    options = experiment.parser(__doc__).parse_args()
    experiment.run_claim(
        "recurrent_state",
        "Where replayed recurrent states come from",
        options,
        TASKS,
        ARMS,
        {},
        shared=SHARED,
        run=experiment.run_sweep,
    )


if __name__ == "__main__":
    main()
