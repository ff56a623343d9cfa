"""LASER's fourth claim: clipping ratios at more than 1 is no substitute for the trust region when a replay is shared.

Source: Schmitt et al. 2020, appendix A.1.
"""

from __future__ import annotations

import experiment
import numpy as np
from shared_replay import MEMBERS

TASKS = {"mini/SparseCatch3-v0": 25_000, "mini/DeepSea10-v0": 30_000, "mini/KeyDoor5-v0": 40_000}
CLIPS = ("rho-clip", "pg-rho-clip")
ARMS = [
    experiment.Arm("threshold 0.1, clip 1", {"algorithm.trust-region-threshold": 0.1}),
    *(
        experiment.Arm(
            f"no trust region, clip {clip:g}",
            {"algorithm.trust-region-threshold": np.inf, **{f"algorithm.{key}": clip for key in CLIPS}},
        )
        for clip in (1.0, 2.0, 4.0)
    ),
]


def main() -> None:
    options = experiment.parser(__doc__).parse_args()
    experiment.run_claim(
        "rho_clip",
        "One replay for four members: the trust region, or larger clips",
        options,
        TASKS,
        ARMS,
        {},
        shared={"sweep/grid": MEMBERS, "sweep/share": True},
        run=experiment.run_sweep,
    )


if __name__ == "__main__":
    main()
