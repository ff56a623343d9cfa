"""A batch whose rows all hold no transition: nothing is learned from it, and every number stays finite."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from every_loss import LOSSES, batch_for, make_algorithm

from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig

# Items of single steps always hold a transition.
OF_UNROLLS = {name: case for name, case in LOSSES.items() if case[0].view == "unrolls"} | {
    "impala, scaled": (ImpalaConfig(normalize_advantages="scale"), "discrete"),
    "impala, standardized": (ImpalaConfig(normalize_advantages="standardize"), "discrete"),
    "impala, PopArt": (ImpalaConfig(popart=True), "discrete"),
    "laser, second moment": (LaserConfig(rejection="second_moment"), "discrete"),
}


@pytest.mark.parametrize("case", OF_UNROLLS)
def test_nothing_is_learned(case):
    torch.manual_seed(0)
    algorithm = make_algorithm(*OF_UNROLLS[case])
    batch = batch_for(algorithm)
    batch = dataclasses.replace(batch, valid=torch.zeros_like(batch.valid))
    networks = algorithm.make_networks()
    targets = {name: algorithm.make_networks() for name in algorithm.targets}
    generator = torch.Generator().manual_seed(1)
    if hasattr(algorithm, "prepare"):
        with torch.no_grad():
            batch = algorithm.prepare(networks, batch)
    output = algorithm.loss(networks, targets, batch, {}, generator)
    output.loss.backward()
    assert output.loss.item() == 0.0
    gradients = [parameter.grad for parameter in networks.parameters() if parameter.grad is not None]
    assert gradients
    assert all((gradient == 0.0).all() for gradient in gradients)
    results = output.metrics | output.per_step | output.state_updates
    assert all(torch.isfinite(value).all() for value in results.values()), results
