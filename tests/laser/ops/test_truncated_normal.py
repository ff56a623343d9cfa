import math

import numpy as np
import pytest
import torch

from laser.ops.truncated_normal import sample_truncated


def truncated_log_density(actions, mean, std, bound):
    """Return the log density [...] of `sample_truncated`; -inf outside."""
    standard = (actions - mean) / std
    inside = math.log(math.erf(bound / math.sqrt(2.0)))
    terms = -0.5 * standard.square() - std.log() - 0.5 * math.log(2.0 * math.pi) - inside
    # A hair wider, so that samples at the edge count as inside after rounding.
    return torch.where(standard.abs() <= bound * (1.0 + 1e-5), terms, -math.inf).sum(-1)


@pytest.mark.parametrize("bound", [0.5, 3.0])
def test_samples_have_the_moments_of_the_cut_density(bound):
    grid = np.linspace(-bound, bound, 200_001)
    density = np.exp(-0.5 * grid**2)
    density /= np.trapezoid(density, grid)
    variance, fourth = (np.trapezoid(grid**power * density, grid) for power in (2, 4))
    num = 400_000
    generator = torch.Generator().manual_seed(0)
    mean, std = torch.full((num, 1), 1.5, dtype=torch.float64), torch.full((num, 1), 0.2, dtype=torch.float64)
    standard = ((sample_truncated(mean, std, bound, generator) - mean) / std).numpy()
    assert np.abs(standard).max() <= bound
    assert np.abs(standard).max() > 0.99 * bound
    assert abs(standard.mean()) < 5 * math.sqrt(variance / num)
    assert abs((standard**2).mean() - variance) < 5 * math.sqrt((fourth - variance**2) / num)
    if bound == 0.5:  # at three deviations the moments are too near a normal's to tell
        assert abs((standard**2).mean() - 1.0) > 0.5


def test_the_density_integrates_to_one_and_is_a_normals_up_to_a_constant():
    grid = torch.linspace(-1.0, 2.0, 300_001, dtype=torch.float64).unsqueeze(-1)
    mean, std = torch.tensor([0.5], dtype=torch.float64), torch.tensor([0.2], dtype=torch.float64)
    logs = truncated_log_density(grid, mean, std, 3.0)
    assert np.trapezoid(logs.exp().numpy(), grid[:, 0].numpy()) == pytest.approx(1.0, abs=1e-4)
    normal = torch.distributions.Normal(mean, std).log_prob(grid).squeeze(-1)
    inside = torch.isfinite(logs)
    difference = (logs - normal)[inside]
    np.testing.assert_allclose(difference.numpy(), -math.log(0.9973002), atol=1e-6)
    assert ((grid[:, 0][inside] - 0.5).abs() <= 0.6 + 1e-4).all()


def test_float32_samples_are_finite_and_inside_their_density():
    generator = torch.Generator().manual_seed(1)
    mean, std = torch.zeros(200_000, 3), torch.full((200_000, 3), 0.4)
    drawn = sample_truncated(mean, std, 3.0, generator)
    assert torch.isfinite(truncated_log_density(drawn, mean, std, 3.0)).all()


def test_however_wide_the_bound_no_draw_is_at_it(monkeypatch):
    extremes = torch.tensor([0.0, 0.5, 1.0 - 2.0**-24])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: extremes)
    drawn = sample_truncated(torch.zeros(3), torch.ones(3), 1000.0, None)
    assert drawn[1] == 0.0
    assert (drawn.abs() < 6.0).all()  # as far as a float32 between 0 and 1 reaches
