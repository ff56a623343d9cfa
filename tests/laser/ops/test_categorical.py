"""The projection of C51 against a loop over atoms."""

import numpy as np
import pytest
import torch

from laser.ops.categorical import project


def literal(probabilities, rewards, discounts, support, mistake=None):
    """Equation 7, atom by atom in float64."""
    spacing = support[1] - support[0]
    projected = np.zeros_like(probabilities)
    for b in range(len(probabilities)):
        for j, atom in enumerate(support):
            landed = rewards[b] + discounts[b] * atom
            if mistake != "no clamp":
                landed = min(max(landed, support[0]), support[-1])
            for i, other in enumerate(support):
                share = max(0.0, 1.0 - abs(landed - other) / spacing)
                if mistake == "nearest atom":
                    share = float(share > 0.5)
                projected[b, i] += share * probabilities[b, j]
    return projected


def draw(num_rows=200, num_atoms=11):
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(num_atoms, 0.5), num_rows)
    rewards, discounts = 2.0 * rng.normal(size=num_rows), 0.9 * (rng.random(num_rows) < 0.8)
    rewards[:40] = rng.integers(-12, 13, 40)  # lands on atoms, and far beyond the ends
    discounts[:20], discounts[20:40] = 0.0, 1.0
    return probabilities, rewards, discounts, np.linspace(-3.0, 5.0, num_atoms)


def test_it_is_the_papers_sum():
    arrays = draw()
    projected = project(*map(torch.from_numpy, arrays)).numpy()
    np.testing.assert_allclose(projected, literal(*arrays), rtol=0, atol=1e-12)
    np.testing.assert_allclose(projected.sum(-1), 1.0, rtol=0, atol=1e-12)
    single = project(*(torch.from_numpy(array).float() for array in arrays)).numpy()
    np.testing.assert_allclose(single, literal(*arrays), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mistake", ["no clamp", "nearest atom"])
def test_the_data_can_tell_a_wrong_projection(mistake):
    arrays = draw()
    projected = project(*map(torch.from_numpy, arrays)).numpy()
    assert np.abs(projected - literal(*arrays, mistake=mistake)).max() > 0.1


def test_a_worked_example():
    support = torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)
    probabilities = torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1]], dtype=torch.float64)
    rewards, discounts = torch.tensor([0.7], dtype=torch.float64), torch.tensor([0.9], dtype=torch.float64)
    projected = project(probabilities, rewards, discounts, support)
    expected = torch.tensor([[0.01, 0.13, 0.28, 0.36, 0.22]], dtype=torch.float64)
    torch.testing.assert_close(projected, expected, rtol=0, atol=1e-12)
    # 2.5 is clamped to 2: without that the mean would be .7.
    assert (projected @ support).item() == pytest.approx(0.65, abs=1e-12)


def test_what_stays_inside_keeps_its_mean():
    support = torch.linspace(-10.0, 10.0, 51)
    probabilities = torch.rand(50, 51).softmax(-1)
    rewards, discounts = 0.5 * torch.rand(50), torch.full((50,), 0.9)
    means = project(probabilities, rewards, discounts, support) @ support
    torch.testing.assert_close(means, rewards + 0.9 * (probabilities @ support), rtol=0, atol=1e-5)
