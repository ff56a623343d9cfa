import importlib

import pytest
import torch

import laser
from laser.batch import Batch
from laser.networks.config import NetworkConfig
from laser.specs import DiscreteActions, EnvironmentSpec, VectorSpec


def test_the_example_trains_and_plays(examples, quick):
    module = importlib.import_module("own_algorithm")
    result = module.main(**quick)
    assert result.learner_steps > 3
    played = laser.evaluate(result.run_dir, episodes=2, num_envs=1, quiet=True)
    assert len(played.returns) == 2
    assert min(played.returns) >= 1


@pytest.mark.parametrize(("advantage_sign", "ratio", "moves"), [(1, 1.0, True), (1, 1.5, False), (-1, 0.5, False)])
def test_the_surrogate_is_flat_outside_its_clip(examples, advantage_sign, ratio, moves):
    module = importlib.import_module("own_algorithm")
    environment = EnvironmentSpec("probe", {"observation": VectorSpec((1,))}, DiscreteActions(2))
    config = module.ClippedConfig(entropy_cost=0.0, baseline_cost=0.0, surrogate_clip=0.2)
    algorithm = config.build(environment, NetworkConfig())
    networks = algorithm.seeded_networks(0)
    # pi is about (1/2, 1/2); mu puts 1 / (2 ratio) on the action that was taken.
    taken = 0.5 / ratio
    mu = torch.tensor([taken, 1.0 - taken]).log() if taken < 1.0 else torch.tensor([20.0, -20.0])
    value = value_at_zero(networks)
    batch = Batch(
        observations={"observation": torch.zeros(2, 1, 1)},
        first=torch.zeros(2, 1, dtype=torch.bool),
        actions=torch.zeros(1, 1, dtype=torch.int64),
        rewards=torch.full((1, 1), value + advantage_sign),
        discounts=torch.zeros(1, 1),
        valid=torch.ones(1, 1, dtype=torch.bool),
        mu={"logits": mu.reshape(1, 1, 2)},
        last_action=torch.zeros(1, dtype=torch.int64),
        last_reward=torch.zeros(1),
        source=torch.zeros(1, 1, dtype=torch.int8),
        task=torch.zeros(1, 1, dtype=torch.int64),
        policy_lag=torch.zeros(1, 1),
        importance_weights=torch.ones(1),
    )
    output = algorithm.loss(networks, {}, batch, {}, None)
    output.loss.backward()
    gradient = networks.policy_head.linear.bias.grad.abs().sum()
    assert (gradient > 0.1) if moves else (gradient == 0.0)


def value_at_zero(networks):
    zeros = torch.zeros(1, 1)
    output = networks({"observation": zeros.unsqueeze(0)}, zeros.long(), zeros, zeros.bool(), {})
    return output.values.item()
