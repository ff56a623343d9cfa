"""LASER's fifth claim: recomputed recurrent states beat stored ones, which collapse when the replay is shared.

The task asks at every step for the card shown three steps before, so half the answers of an unroll need its initial
state. Each arm replays either whole episodes with recomputed states, or unrolls that begin with the state of their
actor, or unrolls that begin with zeros. The sweeps have a replay per member, or one shared replay.
Source: Schmitt et al. 2020, section 3.2 and appendix A.2.
"""

from __future__ import annotations

import experiment

TASKS = {"mini/RepeatPrevious3-v0": 40_000}
SHARED = {
    "network.core": "lstm",
    "network.core-size": 32,
    "algorithm.replay-fraction": 0.75,
    # A gradient reaches from half of the answers back to their card; the other half depends on the initial state.
    "unroll-length": 6,
    # Each answer is rewarded at once, with a 21st of an episode's return.
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
