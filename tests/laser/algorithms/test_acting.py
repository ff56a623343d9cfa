import re

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, NUM_INPUTS, make_environment

from laser.algorithms import find_algorithms
from laser.algorithms.base import ActInput
from laser.networks.config import NetworkConfig

NUM_ENVS = 6


def act(algorithm, networks, seed=0, **options):
    array = algorithm.environment.actions.array
    inputs = ActInput(
        {"observation": torch.ones(NUM_ENVS, NUM_INPUTS)},
        torch.zeros(NUM_ENVS, *array.shape, dtype=getattr(torch, array.dtype)),
        torch.zeros(NUM_ENVS),
        torch.zeros(NUM_ENVS, dtype=torch.bool),
    )
    return algorithm.act(networks, inputs, torch.Generator().manual_seed(seed), **options)


@pytest.mark.parametrize("name", find_algorithms())
@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_what_is_acted_fits_the_specs(name, actions):
    config = find_algorithms()[name]()
    try:
        algorithm = config.build(make_environment(actions), NetworkConfig())
    except ValueError as refusal:
        if not re.match(f"algorithm: {name} needs (Box|Discrete) actions", str(refusal)):
            raise
        return
    networks = algorithm.make_networks()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = act(algorithm, networks)
    actions.array.validate(output.actions.numpy(), "actions", num_leading=1)
    assert set(output.mu) == set(algorithm.behaviour)
    for statistic, array in algorithm.behaviour.items():
        array.validate(output.mu[statistic].numpy(), statistic, num_leading=1)
    assert output.values.shape == (NUM_ENVS,)
    assert output.values.dtype == torch.float32
    assert not output.values.requires_grad

    again, other = act(algorithm, networks), act(algorithm, networks, seed=1)
    first = act(algorithm, networks)
    assert torch.equal(again.actions, first.actions)
    assert not torch.equal(other.actions, first.actions)
    greedy, greedy_again = act(algorithm, networks, greedy=True), act(algorithm, networks, seed=1, greedy=True)
    assert torch.equal(greedy.actions, greedy_again.actions)
    prefix = getattr(algorithm, "statistic_prefix", "")
    mode = algorithm.distribution.mode(
        {statistic: greedy.mu[prefix + statistic] for statistic in algorithm.distribution.sizes}
    )
    assert torch.equal(greedy.actions, mode.tanh() if prefix == "pre_tanh_" else mode)


def test_the_networks_weights_come_from_the_global_generator():
    algorithm = find_algorithms()["laser"]().build(make_environment(ACTIONS["discrete"]), NetworkConfig())
    weights = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        weights.append(np.concatenate([value.flatten() for value in algorithm.make_networks().state_dict().values()]))
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])
