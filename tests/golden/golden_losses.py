"""Ten updates of every loss, as numbers that are kept: what nobody meant to change must not move.

`pytest tests/golden --write-golden` keeps new ones, after a change that is meant to move them.
"""

from __future__ import annotations

from pathlib import Path

import torch
from every_loss import LOSSES, batch_for, make_algorithm

from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.torch_threads import torch_threads
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.train_step import TrainStep

KEPT = Path(__file__).with_name("losses.json")
NUM_UPDATES = 10
GOLDEN = LOSSES | {
    "laser": (LaserConfig(), "discrete"),
    "laser, several actions": (LaserConfig(), "multi_discrete"),
    "laser, PopArt": (LaserConfig(popart=True, popart_step_size=0.1, normalize_advantages="scale"), "discrete"),
    "impala": (ImpalaConfig(), "discrete"),
}


# Sums in the same order on any machine.
@torch_threads(1)
def follow(name: str) -> dict[str, list[float]]:
    """Return the loss, the gradient's norm and the distance from the start, after each of ten updates."""
    algorithm = make_algorithm(*GOLDEN[name])
    example = batch_for(algorithm)
    spec = UnrollSpec(example.shape[0], algorithm.environment, algorithm.behaviour, dict(algorithm.core_state))
    config = LearnerConfig(compile="off", precision="float32")
    step = TrainStep(algorithm, algorithm.seeded_networks(0), spec, config, torch.device("cpu"), 0)
    weights = list(step.networks.parameters())
    start = [weight.detach().clone() for weight in weights]
    told: dict[str, list[float]] = {"loss": [], "gradient norm": [], "distance": []}
    for number in range(NUM_UPDATES):
        batch = batch_for(algorithm, seed=number)
        metrics, output = step(batch, 1e-3, {"progress": number / NUM_UPDATES})
        assert metrics["updates_applied"] == 1.0
        told["loss"].append(float(output.loss))
        told["gradient norm"].append(float(metrics["gradient_norm"]))
        moved = [weight.detach() - before for weight, before in zip(weights, start, strict=True)]
        told["distance"].append(float(torch.cat([each.flatten() for each in moved]).norm()))
    return told
