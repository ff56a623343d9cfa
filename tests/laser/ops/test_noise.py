import math

import pytest
import torch

from laser.ops.noise import ornstein_uhlenbeck_step


def walk(num_steps, theta, std, num_environments=2000):
    generator = torch.Generator().manual_seed(0)
    noise, first = torch.zeros(num_environments, 1), torch.zeros(num_environments, dtype=torch.bool)
    steps = []
    for _ in range(num_steps):
        normal = torch.randn(num_environments, 1, generator=generator)
        noise = ornstein_uhlenbeck_step(noise, first, theta, std, normal)
        steps.append(noise)
    return torch.stack(steps).squeeze(-1)


@pytest.mark.parametrize("theta", [0.15, 1.0])
def test_spread_and_memory_are_those_of_the_process(theta):
    noise = walk(200, theta, 0.2)[100:]
    spread = 0.2 / math.sqrt(1 - (1 - theta) ** 2)
    assert noise.std().item() == pytest.approx(spread, rel=0.03)
    memory = (noise[1:] * noise[:-1]).mean().item() / spread**2
    assert memory == pytest.approx(1 - theta, abs=0.03)


def test_an_episode_begins_without_a_past():
    noise = torch.tensor([[5.0], [5.0]])
    stepped = ornstein_uhlenbeck_step(noise, torch.tensor([True, False]), 0.15, 0.2, torch.ones(2, 1))
    assert stepped.squeeze(-1).tolist() == pytest.approx([0.2, 4.45])
