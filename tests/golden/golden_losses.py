"""Ten updates of every loss, as numbers that are kept: what nobody meant to change must not move.

`pytest tests/golden --write-golden` keeps new ones, after a change that is meant to move them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from every_loss import LOSSES, batch_for, make_algorithm

from laser.algorithms.base import Algorithm
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.torch_threads import torch_threads
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.updating.factory import make_updater
from learner.updating.updater import Updater

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
def follow(name: str, device: str = "cpu", **settings: Any) -> dict[str, list[float]]:
    """Return the loss, the gradient's norm and the distance from the start, after each of ten updates.

    Args:
        name: of `GOLDEN`.
        device: where to compute.
        settings: of the learner, by field; without any it runs uncompiled.
    """
    algorithm, step = _make_step(name, device, settings)
    weights = list(step.state.networks.parameters())
    start = [weight.detach().clone() for weight in weights]
    told: dict[str, list[float]] = {"loss": [], "gradient norm": [], "distance": []}
    for number in range(NUM_UPDATES):
        batch = step.to_device(batch_for(algorithm, seed=number))
        metrics, output = step(batch, 1e-3, {"progress": step.scalar(number / NUM_UPDATES)})
        # A compiled update may write its results over those of the one before.
        assert float(metrics["updates_applied"]) == 1.0
        told["loss"].append(float(output.loss))
        told["gradient norm"].append(float(metrics["gradient_norm"]))
        moved = [weight.detach() - before for weight, before in zip(weights, start, strict=True)]
        told["distance"].append(float(torch.cat([each.flatten() for each in moved]).norm()))
    return told


def draws_as_on_cpu(name: str, device: str, **settings: Any) -> bool:
    """Return whether `follow` draws the random numbers that it draws on the CPU, or none at all.

    Compiled for a GPU a loss draws from that GPU's generator, and so does the order of a batch's parts; elsewhere noise
    is drawn on the CPU.
    """
    if torch.device(device).type == "cpu":
        return True
    algorithm, step = _make_step(name, "cpu", {})
    before = step.state.generator.get_state()
    step(batch_for(algorithm), 1e-3, {"progress": 0.0})
    draws = not torch.equal(step.state.generator.get_state(), before)
    is_compiled = settings.get("compile", "off") != "off"
    return not draws or not (is_compiled or algorithm.config.passes != (1, 1))


def largest_difference(told: dict[str, list[float]], kept: dict[str, list[float]]) -> float:
    """Return the largest difference of any number, relative to the kept one, or to 0.1 where that is smaller."""
    return max(
        abs(number - before) / max(abs(before), 0.1)
        for what, numbers in kept.items()
        for number, before in zip(told[what], numbers, strict=True)
    )


def _make_step(name: str, device: str, settings: Mapping[str, Any]) -> tuple[Algorithm, Updater]:
    algorithm = make_algorithm(*GOLDEN[name])
    example = batch_for(algorithm)
    spec = UnrollSpec(example.shape[0], algorithm.environment, algorithm.behaviour, dict(algorithm.core_state))
    config = LearnerConfig(**({"compile": "off", "precision": "float32"} | dict(settings)))
    step = make_updater(algorithm, algorithm.seeded_networks(0), spec, config, torch.device(device), 0)
    if step.state.device.type != "cpu" and algorithm.config.passes == (1, 1):
        step.state.generator = torch.Generator().manual_seed(0)  # the CPU's noise
    return algorithm, step
