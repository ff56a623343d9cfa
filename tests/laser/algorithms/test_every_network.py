"""Every loss learns with every activation and any number of layers."""

import pytest
import torch
from every_loss import LOSSES, batch_for
from random_batches import ACTIONS, make_environment

from laser.networks.config import NetworkConfig
from laser.networks.mlp import ACTIVATIONS
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.updating.factory import make_updater


@pytest.mark.parametrize("hidden_sizes", [(), (8,), (8, 8)], ids=len)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", LOSSES)
def test_two_updates_are_applied(name, activation, hidden_sizes):
    config, actions = LOSSES[name]
    network = NetworkConfig(hidden_sizes=hidden_sizes, activation=activation)
    algorithm = config.build(make_environment(ACTIONS[actions]), network)
    batch = batch_for(algorithm)
    spec = UnrollSpec(batch.shape[0], algorithm.environment, algorithm.behaviour, dict(algorithm.core_state))
    settings = LearnerConfig(compile="off", precision="bfloat16")
    step = make_updater(algorithm, algorithm.seeded_networks(0), spec, settings, torch.device("cpu"), 0)
    for _ in range(2):
        metrics, _ = step(batch, 1e-3, {})
        assert float(metrics["updates_applied"]) == 1.0
        assert float(metrics["gradient_norm"]) > 0.0
