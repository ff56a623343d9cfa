import itertools

import numpy as np
import pytest
import torch

from laser.ops.advantages import (
    ADVANTAGES,
    bump,
    bump_expectation,
    lower_triangular,
    positive,
    quadratic_expectation,
    quadratic_form,
)

MEAN, STD = torch.tensor([0.1, -0.3], dtype=torch.float64), torch.tensor([0.2, 0.35], dtype=torch.float64).sqrt()
ACTION = torch.tensor([0.6, -0.5], dtype=torch.float64)
TRIANGLE = torch.tensor([[1.2, 0.0], [0.4, 0.7]], dtype=torch.float64)


def double(*values, **options):
    return torch.tensor(values, dtype=torch.float64, **options)


K, NARROW, WIDE = double(1.5).squeeze(), double(0.5, 2.0), double(1.0, 0.3)


def test_known_expectations_and_advantages():
    variance = STD.square()
    quadratic = quadratic_expectation(TRIANGLE, variance)
    symmetric = bump_expectation(K, NARROW, NARROW, variance)
    asymmetric = bump_expectation(K, NARROW, WIDE, variance)
    assert quadratic.item() == pytest.approx(-0.257750, abs=1e-6)
    assert symmetric.item() == pytest.approx(1.169522, abs=1e-6)
    assert asymmetric.item() == pytest.approx(1.056066, abs=1e-6)
    assert (bump(ACTION, MEAN, K, NARROW, WIDE) - asymmetric).item() == pytest.approx(0.036794, abs=1e-6)
    assert (bump(ACTION, MEAN, K, NARROW, NARROW) - symmetric).item() == pytest.approx(-0.012944, abs=1e-6)
    assert (quadratic_form(ACTION, MEAN, TRIANGLE) - quadratic).item() == pytest.approx(0.112750, abs=1e-6)
    assert (bump(MEAN, MEAN, K, NARROW, WIDE) - asymmetric).item() == pytest.approx(0.443934, abs=1e-6)


def test_known_gradient_of_the_asymmetric_advantage():
    k, above, below = double(1.5, requires_grad=True), double(0.5, 2.0, requires_grad=True), double(1.0, 0.3)
    below.requires_grad_(True)
    advantage = bump(ACTION, MEAN, k[0], above, below) - bump_expectation(k[0], above, below, STD.square())
    advantage.backward()
    gradient = [*k.grad.tolist(), *above.grad.tolist(), *below.grad.tolist()]
    assert gradient == pytest.approx([0.02453, 0.401375, -0.022645, -0.045698, -0.159084], abs=1e-6)


def integrate(function, mean, std):
    """Return the mean of a function of two numbers under a diagonal Gaussian, by the midpoint rule."""
    edges = np.linspace(-8.0, 8.0, 2001)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    weights = np.exp(-0.5 * middles**2) / np.sqrt(2 * np.pi) * width
    x, y = mean[0] + std[0] * middles, mean[1] + std[1] * middles
    grid = torch.tensor(np.stack(np.meshgrid(x, y, indexing="ij"), -1))
    return float((function(grid).numpy() * weights[:, None] * weights[None, :]).sum())


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda a: quadratic_form(a, MEAN, TRIANGLE), quadratic_expectation(TRIANGLE, STD.square())),
        (lambda a: bump(a, MEAN, K, NARROW, NARROW), bump_expectation(K, NARROW, NARROW, STD.square())),
        (lambda a: bump(a, MEAN, K, NARROW, WIDE), bump_expectation(K, NARROW, WIDE, STD.square())),
    ],
    ids=["quadratic", "symmetric", "asymmetric"],
)
def test_expectations_are_the_integrals(f, expected):
    assert integrate(f, MEAN.numpy(), STD.numpy()) == pytest.approx(expected.item(), rel=1e-5)


def test_the_integral_can_tell_the_printed_trace_from_the_right_one():
    integral = integrate(lambda a: quadratic_form(a, MEAN, TRIANGLE), MEAN.numpy(), STD.numpy())
    printed = torch.trace(TRIANGLE @ TRIANGLE.T @ torch.diag(STD.square())).item()
    assert printed == pytest.approx(0.5155)
    assert integral != pytest.approx(printed, abs=0.1)


@pytest.mark.parametrize("name", ADVANTAGES)
@pytest.mark.parametrize("num_dimensions", [1, 3])
def test_advantages_are_zero_on_average_and_highest_at_the_mean(name, num_dimensions):
    generator = torch.Generator().manual_seed(0)
    advantage, num_samples = ADVANTAGES[name](num_dimensions), 400_000
    outputs = advantage.initial_bias().double() + torch.randn(
        advantage.num_outputs, generator=generator, dtype=torch.float64
    )
    for _ in range(2):  # as initialised, and after a step along some gradient
        mean, std = torch.randn(2, num_dimensions, generator=generator, dtype=torch.float64)
        std = 0.2 + std.abs()
        noise = torch.randn(num_samples, num_dimensions, generator=generator, dtype=torch.float64)
        outputs = outputs.detach().requires_grad_(True)
        drawn = advantage(outputs, mean + std * noise, mean, std.square())
        error = 5.0 * drawn.std().item() / num_samples**0.5
        assert abs(drawn.mean().item()) < error
        assert drawn.max().item() <= advantage(outputs, mean, mean, std.square()).item()
        advantage(outputs, mean + 0.3, mean, std.square()).backward()
        outputs = outputs + 0.5 * outputs.grad


@pytest.mark.parametrize("name", ADVANTAGES)
def test_batches_are_rows_side_by_side(name):
    advantage = ADVANTAGES[name](2)
    outputs, actions, mean = torch.randn(3, 4, advantage.num_outputs), torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    variance = torch.rand(3, 4, 2) + 0.1
    together = advantage(outputs, actions, mean, variance)
    assert together.shape == (3, 4)
    for i, j in itertools.product(range(3), range(4)):
        alone = advantage(outputs[i, j], actions[i, j], mean[i, j], variance[i, j])
        assert together[i, j].item() == pytest.approx(alone.item(), rel=1e-5, abs=1e-6)


def test_positive_is_positive_and_keeps_its_digits():
    x = double(0.0, 1.0, -1.0)
    assert positive(x).tolist() == pytest.approx([0.5, 1.2071068, 0.2071068], abs=1e-6)
    far = torch.tensor([-1e4, -1e2, 1e4], requires_grad=True)
    assert positive(far).tolist() == pytest.approx([0.25e-4, 0.25e-2, 1e4], rel=1e-3)
    positive(far).sum().backward()
    assert torch.isfinite(far.grad).all()
    x.requires_grad_(True)
    assert torch.autograd.gradcheck(positive, x + 0.1)


def test_triangles_have_a_positive_diagonal_and_nothing_above_it():
    matrix = lower_triangular(torch.randn(5, 6), 3)
    assert (matrix.diagonal(dim1=-2, dim2=-1) > 0).all()
    assert (matrix.triu(1) == 0).all()
    assert (matrix.tril(-1) != 0).sum() == 5 * 3
