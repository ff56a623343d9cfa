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
    has_value = name not in ("sac", "td3", "ddpg", "naf")
    assert torch.equal(output.values.isfinite(), torch.full((NUM_ENVS,), has_value))

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


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("laser", {"reward_transform": "clip", "reward_scale": 0.1}, [-0.1, 0.05]),
        ("ppo", {"reward_scale": 0.1}, [-0.5, 0.05]),
        ("dqn", {"reward_clip": 2.0}, [-2.0, 0.5]),
        ("rainbow", {}, [-1.0, 0.5]),
        ("sac", {}, [-5.0, 0.5]),
        ("v_racer", {}, [-5.0, 0.5]),
    ],
)
def test_rewards_are_learned_from_in_the_units_of_the_values(name, settings, expected):
    config = find_algorithms()[name](**settings)
    torch.testing.assert_close(config.learned_from(torch.tensor([-5.0, 0.5])), torch.tensor(expected))


def test_the_networks_weights_come_from_the_global_generator():
    algorithm = find_algorithms()["laser"]().build(make_environment(ACTIONS["discrete"]), NetworkConfig())
    weights = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        weights.append(np.concatenate([value.flatten() for value in algorithm.make_networks().state_dict().values()]))
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])
