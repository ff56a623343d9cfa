"""Settings that change while an agent trains: the schedule counts like the config, and compiles nothing anew."""

import dataclasses

import pytest
import torch
from random_batches import ACTIONS, make_batch, make_environment

from laser.algorithms.base import AlgorithmConfig
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.config import field_infos
from laser.networks.config import NetworkConfig

VALUES = {"entropy_cost": 0.37, "baseline_cost": 0.11, "trust_region_threshold": 0.004}


def loss_of(config, schedule):
    torch.manual_seed(0)
    algorithm = config.build(make_environment(ACTIONS["discrete"]), NetworkConfig(hidden_sizes=(16,)))
    networks = algorithm.make_networks().double()
    batch = make_batch(ACTIONS["discrete"], dtype=torch.float64)
    return algorithm.loss(networks, {}, batch, schedule, torch.Generator().manual_seed(1)).loss.item()


@pytest.mark.parametrize("config_type", [ImpalaConfig, LaserConfig])
def test_the_schedule_counts_like_the_config(config_type):
    names = config_type.live_settings[len(AlgorithmConfig.live_settings) :]
    assert set(names) <= set(VALUES)
    assert set(config_type.live_settings) <= set(field_infos(config_type))
    config = config_type()
    for name in names:
        changed = loss_of(dataclasses.replace(config, **{name: VALUES[name]}), {})
        assert changed != loss_of(config, {}), f"{name} does nothing here, so the test shows nothing"
        assert loss_of(config, {name: VALUES[name]}) == changed
        assert loss_of(config, {name: torch.tensor(VALUES[name], dtype=torch.float64)}) == pytest.approx(changed)


@pytest.mark.slow
@pytest.mark.parametrize("as_tensor", [True, False])
def test_a_compiled_loss_is_not_compiled_for_every_value(as_tensor):
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph

    torch.manual_seed(0)
    torch._dynamo.reset()
    algorithm = LaserConfig().build(make_environment(ACTIONS["discrete"]), NetworkConfig(hidden_sizes=(8,)))
    networks, batch = algorithm.make_networks(), make_batch(ACTIONS["discrete"])
    loss = torch.compile(lambda schedule: algorithm.loss(networks, {}, batch, schedule, None).loss, backend=backend)
    seen = []
    for value in (0.1, 0.2, 0.4, 0.8):
        schedule = {name: torch.tensor(value) if as_tensor else value for name in VALUES}
        seen.append(loss(schedule).item())
    assert len(set(seen)) == 4
    # Numbers that are no tensors are built into the code: that is why a learner that compiles hands over tensors.
    assert (len(compiled) == 1) is as_tensor
    torch._dynamo.reset()
