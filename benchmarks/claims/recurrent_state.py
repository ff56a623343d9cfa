"""LASER's fifth claim: recomputed recurrent states beat stored ones, which collapse when the replay is shared.

A T-maze shows its cue at the first step only. Each arm replays either whole episodes whose states are recomputed as
they are walked, or unrolls that begin with the state their actor had, or with zeros; in a sweep of members that each
have a replay, and in one whose members share theirs.
Source: Schmitt et al. 2020, section 3.2 and appendix A.2.
"""

from __future__ import annotations

import experiment

TASKS = {"mini/TMaze5-v0": 50_000}
SHARED = {
    "network.core": "lstm",
    "network.core-size": 32,
    "algorithm.replay-fraction": 0.75,
    # As long as the shortest episode: a gradient can reach from the turn back to the cue, but most unrolls begin after
    # the cue, which then only their state can tell.
    "unroll-length": 6,
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
