"""ReF-ER's third claim: RACER diverges with plain replay and learns with ReF-ER; V-RACER is close behind.

Arms: the three parameterisations of the advantage and none (V-RACER), each with ReF-ER and with plain replay. The
paper's best is the asymmetric one.
Source: Novati and Koumoutsakos 2019, figures 5 and 6.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import experiment
from refer_distance import PLAIN, conclude

TASKS = {"Pendulum-v1": 30_000, "InvertedPendulum-v5": 30_000, "InvertedDoublePendulum-v5": 30_000}
KINDS = {
    "RACER, asymmetric": {"algorithm.advantage": "asymmetric"},
    "RACER, symmetric": {"algorithm.advantage": "symmetric"},
    "RACER, quadratic": {"algorithm.advantage": "quadratic"},
    "V-RACER": {"claim/preset": "v_racer_pendulum"},
}
ARMS = [
    experiment.Arm(f"{kind}, {how}", values | changes)
    for kind, values in KINDS.items()
    for how, changes in (("ReF-ER", {}), ("plain replay", PLAIN))
]
GRID = {"algorithm.learning-rate": (1e-3,)}


def run(job: experiment.Job) -> dict[str, Any]:
    """Train once, from the arm's own preset if it names one."""
    values = dict(job.values)
    preset = values.pop("claim/preset", job.preset)
    return experiment.run_job(dataclasses.replace(job, preset=preset, values=values))


def main() -> None:
    options = experiment.parser(__doc__)
    options.set_defaults(preset="racer_pendulum")
    experiment.run_claim(
        "refer_racer",
        "RACER with and without ReF-ER",
        options.parse_args(),
        TASKS,
        ARMS,
        GRID,
        run=run,
        conclude=conclude,
    )


if __name__ == "__main__":
    main()
