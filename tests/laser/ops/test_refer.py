import math

import numpy as np
import pytest
import torch

from laser.ops.distributions import DiagonalGaussian
from laser.ops.refer import annealed, c_max_at, near_policy, next_beta, refer_terms

MU = {"mean": [0.0, 0.5], "std": [0.4, 0.4]}
PI = {"mean": [0.2, 0.1], "std": [0.5, 0.3]}


def as_double(statistics, **options):
    return {name: torch.tensor(value, dtype=torch.float64, **options) for name, value in statistics.items()}


def test_gaussian_divergence_ratio_and_gradients_are_the_known_ones():
    gaussian, mu, pi = DiagonalGaussian(2), as_double(MU), as_double(PI, requires_grad=True)
    kl = gaussian.kl(mu, pi)
    kl.backward()
    assert kl.item() == pytest.approx(1.113239, abs=1e-6)
    assert gaussian.kl(pi, mu).item() == pytest.approx(0.752039, abs=1e-6)
    assert pi["mean"].grad.tolist() == pytest.approx([0.8, -4.444444], abs=1e-6)
    assert pi["std"].grad.tolist() == pytest.approx([0.4, -8.518519], abs=1e-6)
    actions = torch.tensor([0.1, 0.2], dtype=torch.float64)
    rho = (gaussian.log_prob(pi, actions) - gaussian.log_prob(mu, actions)).exp()
    assert rho.item() == pytest.approx(1.351862, abs=1e-6)


@pytest.mark.parametrize(("num_dimensions", "most"), [(17, 850.0), (6, 300.0)])
def test_largest_divergence_of_a_bounded_deterministic_policy(num_dimensions, most):
    ones = torch.ones(num_dimensions, dtype=torch.float64)
    kl = DiagonalGaussian(num_dimensions).kl({"mean": ones, "std": 0.2 * ones}, {"mean": -ones, "std": 0.2 * ones})
    assert kl.item() == pytest.approx(most)


def test_divergence_is_the_integral():
    grid = np.linspace(-12, 12, 400_001)

    def density(mean, std):
        return np.exp(-0.5 * ((grid - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))

    p, q = density(0.3, 0.7), density(-0.4, 1.1)
    integral = np.trapezoid(p * np.log(p / q), grid)
    p, q = (
        {"mean": torch.tensor([m]).double(), "std": torch.tensor([s]).double()} for m, s in ((0.3, 0.7), (-0.4, 1.1))
    )
    assert DiagonalGaussian(1).kl(p, q).item() == pytest.approx(integral, rel=1e-6)


def test_c_max_and_step_sizes_anneal_as_meant_and_not_as_printed():
    at = [c_max_at(k, 4.0, 5e-7) for k in (0, 1_000_000, 2_000_000, 10_000_000)]
    assert at == pytest.approx([5.0, 3.6667, 3.0, 1.6667], abs=1e-4)
    assert annealed(1e-4, 1_000_000, 5e-7) == pytest.approx(6.667e-5, rel=1e-4)
    assert annealed(1e-4, 10_000_000, 5e-7) == pytest.approx(1.667e-5, rel=1e-3)


def test_beta_moves_by_its_rate():
    assert next_beta(0.5, 0.2, 0.1, 1e-4) == pytest.approx(0.49995)
    assert next_beta(0.5, 0.05, 0.1, 1e-4) == pytest.approx(0.50005)
    assert next_beta(0.5, 0.1, 0.1, 1e-4) == pytest.approx(0.50005)  # at the tolerance itself is not above it
    for rate, expected in ((1e-4, 0.367861), (0.1 * 256 / 2**18, 0.376585)):
        beta = 1.0
        for _ in range(10_000):
            beta = next_beta(beta, 1.0, 0.1, rate)
        assert beta == pytest.approx(expected, abs=1e-6)


def test_beta_holds_a_fraction_that_answers_to_it():
    """Where the far fraction rises with beta, its fixed point is the tolerance."""
    beta = 1.0
    for _ in range(5000):
        beta = next_beta(beta, 0.4 * beta, 0.1, 1e-2)
    assert 0.4 * beta == pytest.approx(0.1, abs=0.01)


def test_near_is_strictly_between_the_bounds():
    log_rhos = torch.tensor([0.5, 0.2501, 0.25, 1.0, 3.999, 4.0, math.nan, math.inf, 0.0]).log()
    assert near_policy(log_rhos, 4.0).tolist() == [True, True, False, True, True, False, False, False, False]
    assert near_policy(log_rhos, torch.tensor(4.0)).tolist() == near_policy(log_rhos, 4.0).tolist()


def literal_terms(losses, kls, near, beta):
    return [
        beta * (loss if is_near else 0.0) + (1 - beta) * kl for loss, kl, is_near in zip(losses, kls, near, strict=True)
    ]


def test_far_steps_add_only_the_pull():
    losses = torch.tensor([2.0, math.inf, -1.0], dtype=torch.float64, requires_grad=True)
    kls = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64, requires_grad=True)
    near = torch.tensor([True, False, True])
    terms = refer_terms(losses, kls, near, 0.75)
    assert terms.tolist() == pytest.approx(literal_terms([2.0, 0.0, -1.0], [0.3, 0.6, 0.9], near.tolist(), 0.75))
    terms.sum().backward()
    assert losses.grad.tolist() == [0.75, 0.0, 0.75]
    assert kls.grad.tolist() == [0.25, 0.25, 0.25]


def test_the_data_can_tell_a_pull_that_leaves_out_far_steps():
    wrong = [0.75 * 2.0 + 0.25 * 0.3, 0.0, -0.75 + 0.25 * 0.9]
    assert literal_terms([2.0, 0.0, -1.0], [0.3, 0.6, 0.9], [True, False, True], 0.75) != pytest.approx(wrong)
