"""ReF-ER's third claim: RACER diverges with plain replay and learns with ReF-ER; V-RACER is close behind.

Arms: with ReF-ER, the three parameterisations of the advantage and none (V-RACER); with plain replay, the paper's best
parameterisation, which is asymmetric, and V-RACER. All arms use the preset's learning rate, untuned; `--preset racer`
is the paper's.
`--preset racer --env HalfCheetah-v5 --scale 334` is one of the paper's tasks at the paper's ten million steps.
Source: Novati and Koumoutsakos 2019, figures 5 and 6.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import experiment
from refer_distance import PLAIN, conclude, run

TASKS = {"Pendulum-v1": 30_000, "InvertedDoublePendulum-v5": 30_000, "InvertedPendulum-v5": 30_000}
V_RACER = "claim/v-racer"
ASYMMETRIC: dict[str, Any] = {"algorithm.advantage": "asymmetric"}
WITHOUT: dict[str, Any] = {V_RACER: True}
ARMS = [
    experiment.Arm("RACER, asymmetric, ReF-ER", ASYMMETRIC),
    experiment.Arm("RACER, symmetric, ReF-ER", {"algorithm.advantage": "symmetric"}),
    experiment.Arm("RACER, quadratic, ReF-ER", {"algorithm.advantage": "quadratic"}),
    experiment.Arm("V-RACER, ReF-ER", WITHOUT),
    experiment.Arm("RACER, asymmetric, plain replay", ASYMMETRIC | PLAIN),
    experiment.Arm("V-RACER, plain replay", WITHOUT | PLAIN),
]


def run_kind(job: experiment.Job) -> dict[str, Any]:
    """Train once; V-RACER has RACER's preset except for the advantage."""
    values = dict(job.values)
    if values.pop(V_RACER, False):
        job = dataclasses.replace(job, preset=f"v_{job.preset}")
    return run(dataclasses.replace(job, values=values))


def main() -> None:
    options = experiment.parser(__doc__)
    options.set_defaults(preset="racer_pendulum")
    experiment.run_claim(
        "refer_racer",
        "RACER with and without ReF-ER",
        options.parse_args(),
        TASKS,
        ARMS,
        {},
        run=run_kind,
        conclude=conclude,
    )


if __name__ == "__main__":
    main()
