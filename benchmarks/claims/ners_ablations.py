"""NERS without its parts: no global context, few features, training episodes (NERS*), other losses, no learning.

Source: Oh et al. 2021 (NERS), figure 4.
"""

from __future__ import annotations

import experiment
from samplers_compared import NERS, NERS_STAR, NOT_LEARNED, UNIFORM, compare_samplers

PARTS = [
    UNIFORM,
    NERS,
    experiment.Arm("no global context", {**NERS.values, "replay.ners.global-context": False}),
    experiment.Arm("few features", {**NERS.values, "replay.ners.features": "few"}),
    NERS_STAR,
    experiment.Arm("normalised over draws", {**NERS.values, "replay.ners.normalizer": "batch"}),
    experiment.Arm("scores not normalised", {**NERS.values, "replay.ners.normalizer": "none"}),
    NOT_LEARNED,
]


def main() -> None:
    compare_samplers(
        "ners_ablations", "NERS without its parts", __doc__, PARTS, {"SAC": "sac_sparse_pendulum"}, ["NERS"]
    )


if __name__ == "__main__":
    main()
