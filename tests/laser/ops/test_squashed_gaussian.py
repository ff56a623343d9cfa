"""Densities of squashed Gaussians against integrals and the change of variables."""

import math

import numpy as np
import pytest
import torch

from laser.ops.squashed_gaussian import UNIFORM_STD, squashed_draw, squashed_log_prob


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_known_number():
    log_prob = squashed_log_prob(doubles(0.0, -1.0), doubles(0.5, 1.0), doubles(0.3, -1.2))
    assert log_prob.item() == pytest.approx(-0.068670, abs=5e-7)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.3), (-1.5, 2.0), (0.0, UNIFORM_STD)])
def test_densities_integrate_to_one_and_to_the_probability_of_a_part(mean, std):
    # Over the actions themselves, finer towards the ends, where wide policies pile up.
    edges = np.tanh(np.linspace(-12.0, 12.0, 400_001))
    actions = 0.5 * (edges[1:] + edges[:-1])
    inside = np.abs(actions) < 1.0
    unsquashed = torch.tensor(np.arctanh(actions[inside])).unsqueeze(-1)
    log_probs = squashed_log_prob(doubles(mean).expand_as(unsquashed), doubles(std), unsquashed)
    mass = log_probs.exp().numpy() * np.diff(edges)[inside]
    assert mass.sum() == pytest.approx(1.0, abs=1e-6)
    below = 0.5 * (1.0 + math.erf((math.atanh(0.4) - mean) / (std * math.sqrt(2.0))))
    assert mass[actions[inside] < 0.4].sum() == pytest.approx(below, abs=1e-4)


def test_draws_say_their_own_density_and_stay_exact_at_the_edge():
    generator = torch.Generator().manual_seed(0)
    mean, std = torch.randn(50, 3, generator=generator).double(), torch.rand(50, 3, generator=generator).double() + 0.2
    normal = torch.randn(50, 3, generator=generator).double()
    actions, log_probs = squashed_draw(mean, std, normal)
    for row in range(50):
        expected = 0.0
        for m, s, n, a in zip(mean[row], std[row], normal[row], actions[row], strict=True):
            assert a.item() == pytest.approx(math.tanh(m + s * n), abs=1e-15)
            density = math.exp(-0.5 * n.item() ** 2) / (s.item() * math.sqrt(2.0 * math.pi))
            expected += math.log(density / (1.0 - a.item() ** 2))
        assert log_probs[row].item() == pytest.approx(expected, rel=1e-9)
    far = squashed_log_prob(torch.zeros(1), torch.ones(1), torch.tensor([30.0]))
    assert far.item() == pytest.approx(-450.0 - 0.5 * math.log(2.0 * math.pi) - 2.0 * (math.log(2.0) - 30.0), rel=1e-6)


def test_gradients_go_through_the_draw():
    mean, std = doubles(0.2, -0.4).requires_grad_(True), doubles(0.5, 0.9).requires_grad_(True)
    normal = doubles(0.3, -1.1)
    torch.autograd.gradcheck(lambda m, s: squashed_draw(m, s, normal), (mean, std))


def test_the_random_policy_is_about_uniform():
    normal = torch.randn(200_000, generator=torch.Generator().manual_seed(1))
    counts = torch.histc((UNIFORM_STD * normal).tanh(), 8, -1.0, 1.0) / len(normal)
    assert (counts - 1 / 8).abs().max() < 0.02
