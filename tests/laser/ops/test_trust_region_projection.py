import math

import pytest
import torch

from laser.ops.distributions import Categorical, DiagonalGaussian
from laser.ops.trust_region_projection import (
    categorical_kl_gradient,
    gaussian_kl_gradient,
    project_to_trust_region,
)


def tensor(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


PI, AVERAGE = tensor(0.6, 0.3, 0.1), tensor(0.3, 0.3, 0.4)


@pytest.mark.parametrize(
    ("gradient", "threshold", "expected"),
    [
        ((1.0, -0.5, 2.0), 1.0, (1.0, -0.5, 2.0)),
        ((-3.0, 0.5, -1.0), 1.0, (-2.884058, 0.731884, -0.072464)),
        ((-3.0, 0.5, -1.0), 0.1, (-2.857971, 0.784058, 0.136232)),
        ((-3.0, 0.5, -1.0), math.inf, (-3.0, 0.5, -1.0)),
    ],
)
def test_known_numbers(gradient, threshold, expected):
    kl_gradient = categorical_kl_gradient(AVERAGE, PI)
    assert kl_gradient.tolist() == pytest.approx([-0.5, -1.0, -4.0])
    got = project_to_trust_region(tensor(*gradient), kl_gradient, threshold)
    assert got.tolist() == pytest.approx(expected, abs=1e-6)


def random_gradients(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 500, 4, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("threshold", [0.05, 1.0])
def test_inside_nothing_changes_and_outside_the_bound_is_met_by_the_nearest_gradient(threshold):
    gradient, kl_gradient = random_gradients()
    got = project_to_trust_region(gradient, kl_gradient, threshold)
    along = (gradient * kl_gradient).sum(-1)
    inside = along <= threshold
    assert 0.2 < inside.double().mean() < 0.8
    assert torch.equal(got[inside], gradient[inside])
    after = (got * kl_gradient).sum(-1)[~inside]
    torch.testing.assert_close(after, torch.full_like(after, threshold), rtol=0, atol=1e-12)
    # Nearest: every other point that meets the bound is farther from g.
    others = got[~inside] + 0.1 * torch.randn(got[~inside].shape, generator=torch.Generator().manual_seed(1)).double()
    allowed = (others * kl_gradient[~inside]).sum(-1) <= threshold
    distances = (others - gradient[~inside]).norm(dim=-1), (got - gradient)[~inside].norm(dim=-1)
    assert allowed.any()
    assert (distances[0] > distances[1])[allowed].all()


def test_ascent_and_descent_agree():
    gradient, kl_gradient = random_gradients()
    ascent = project_to_trust_region(gradient, kl_gradient, 0.3)
    descent = project_to_trust_region(-gradient, -kl_gradient, 0.3)
    torch.testing.assert_close(descent, -ascent, rtol=0, atol=0)


def test_each_sample_is_projected_by_itself():
    gradient, kl_gradient = random_gradients()
    whole = project_to_trust_region(gradient, kl_gradient, 0.3)
    for row in range(20):
        torch.testing.assert_close(whole[row], project_to_trust_region(gradient[row], kl_gradient[row], 0.3))
    averaged = project_to_trust_region(gradient.mean(0), kl_gradient.mean(0), 0.3)
    assert not torch.allclose(whole.mean(0), averaged, atol=1e-2), "the data cannot tell averaging before from after"


def test_where_the_policy_is_its_average_nothing_is_divided_by_zero():
    gradient = tensor(1.0, 2.0)
    assert torch.equal(project_to_trust_region(gradient, torch.zeros_like(gradient), 1.0), gradient)


def test_the_categorical_gradient_is_that_of_the_divergence():
    probs = PI.clone().requires_grad_()
    # Not normalised anew: the gradient with respect to the probabilities as they are.
    kl = (AVERAGE * (AVERAGE.log() - probs.log())).sum()
    (expected,) = torch.autograd.grad(kl, probs)
    torch.testing.assert_close(categorical_kl_gradient(AVERAGE, PI), expected)
    assert Categorical(3).kl({"logits": AVERAGE.log()}, {"logits": PI.log()}).item() == pytest.approx(kl.item())
    # The other order of arguments has another gradient.
    (other,) = torch.autograd.grad((probs * (probs.log() - AVERAGE.log())).sum(), probs)
    assert not torch.allclose(other, expected)


def test_the_gaussian_gradient_is_that_of_the_divergence():
    average = {"mean": tensor(0.0, 0.3), "std": tensor(0.3, 0.5)}
    policy = {"mean": tensor(0.2, -0.1).requires_grad_(), "std": tensor(0.4, 0.3).requires_grad_()}
    kl = DiagonalGaussian(2).kl(average, policy)
    expected = dict(zip(policy, torch.autograd.grad(kl, list(policy.values())), strict=True))
    got = gaussian_kl_gradient(average, {name: value.detach() for name, value in policy.items()})
    torch.testing.assert_close(got, expected)


def test_known_numbers_of_a_gaussian():
    std = tensor(0.3, 0.3)
    got = gaussian_kl_gradient({"mean": tensor(0.0, 0.3), "std": std}, {"mean": tensor(0.2, -0.1), "std": std})
    assert got["mean"].tolist() == pytest.approx([2.2222, -4.4444], abs=1e-4)
