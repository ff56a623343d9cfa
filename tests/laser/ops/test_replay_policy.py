"""Objectives of learned samplers against numbers worked out by hand and against enumerated index sets."""

from itertools import combinations, product

import numpy as np
import pytest
import torch

from laser.ops.replay_policy import (
    ero_objective,
    log_draw_probabilities,
    ners_objective,
    ners_objective_of_code,
)

SCORES = (0.9, 0.5, 0.1)


def scores():
    return torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)


def test_draw_probabilities_and_their_weights():
    p = log_draw_probabilities(scores(), 0.5, scores()).exp()
    torch.testing.assert_close(p, torch.tensor([0.481072, 0.35857, 0.160357], dtype=torch.float64), rtol=0, atol=1e-6)
    weights = (1 / (3 * p)) ** 0.4
    expected = torch.tensor([0.86351, 0.971229, 1.340034], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)
    relative = torch.tensor([0.644394, 0.72478, 1.0], dtype=torch.float64)
    torch.testing.assert_close(weights / weights.max(), relative, rtol=0, atol=1e-6)


def test_the_gradient_of_two_drawn_of_three():
    sigma = scores()
    ners_objective(sigma[[0, 2]], 2.0, 0.5, sigma).backward()
    expected = torch.tensor([0.042061, -1.434281, 6.792851], dtype=torch.float64)
    torch.testing.assert_close(sigma.grad, expected, rtol=0, atol=1e-6)


def test_the_gradient_of_the_authors_code():
    sigma = scores()
    ners_objective_of_code(sigma[[0, 2]], 2.0).backward()
    torch.testing.assert_close(sigma.grad, torch.tensor([1 / 0.9, 0.0, 10.0], dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("exponent", [0.5, 1.0])
@pytest.mark.parametrize("mistake", [None, "no_exponent", "unnormalized"])
def test_every_index_set_against_the_derivative_written_out(exponent, mistake):
    """d/d sigma_k of sum_{i in I} log p_i = a / sigma_k [k in I] - |I| a sigma_k^(a - 1) / sum_j sigma_j^a."""
    numbers = np.array([0.8, 0.3, 0.55, 0.07])
    alike = []
    for size in (1, 2, 3, 4):
        for chosen in combinations(range(4), size):
            sigma = torch.tensor(numbers, requires_grad=True)
            ners_objective(sigma[list(chosen)], -1.5, exponent, sigma).backward()
            a = 1.0 if mistake == "no_exponent" else exponent
            inside = np.isin(np.arange(4), chosen)
            shared = 0.0 if mistake == "unnormalized" else size * a * numbers ** (a - 1) / (numbers**a).sum()
            expected = -1.5 * (inside * a / numbers - shared)
            alike.append(np.allclose(sigma.grad.numpy(), expected, rtol=1e-12))
    assert all(alike) == (mistake is None or (mistake == "no_exponent" and exponent == 1.0))


@pytest.mark.parametrize("over", ["all that is stored", "what is drawn alone", "the authors' code"])
def test_over_all_draws_the_gradient_is_that_of_the_mean_replay_reward(over):
    """Two of four steps are drawn with replacement, and each pair has a replay reward of its own."""
    numbers = torch.tensor([0.8, 0.3, 0.55, 0.07], dtype=torch.float64)
    rewards = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = numbers.clone().requires_grad_()
    p = exact**0.5 / (exact**0.5).sum()
    (torch.outer(p, p) * rewards).sum().backward()

    sigma, p = numbers.clone().requires_grad_(), p.detach()
    for pair in product(range(4), repeat=2):
        drawn, reward = sigma[list(pair)], float(rewards[pair])
        if over == "the authors' code":
            objective = ners_objective_of_code(drawn, reward)
        else:
            objective = ners_objective(drawn, reward, 0.5, sigma if over == "all that is stored" else drawn)
        (float(p[pair[0]] * p[pair[1]]) * objective).backward()
    assert torch.allclose(sigma.grad, exact.grad, rtol=1e-9) == (over == "all that is stored")


def test_a_uniform_part_of_what_is_stored_serves_on_average():
    numbers = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    generator = torch.Generator().manual_seed(1)

    def gradient(stored):
        sigma = numbers.clone().requires_grad_()
        ners_objective(sigma[:10], 1.0, 0.5, sigma if stored is None else sigma[stored]).backward()
        return sigma.grad

    parts = [gradient(torch.randint(40, (200,), generator=generator)) for _ in range(200)]
    torch.testing.assert_close(torch.stack(parts).mean(0), gradient(None), rtol=0, atol=0.04)
    assert (gradient(torch.arange(20)) - gradient(None)).abs().max() > 0.1, "any part would do"


def test_drawn_in_proportion_the_gradient_is_zero_on_average():
    """E_{i ~ p}[grad log p_i] = 0: what is left over many draws comes from the replay reward alone."""
    p = log_draw_probabilities(scores(), 0.5, scores()).exp().detach()
    total = torch.zeros(3, dtype=torch.float64)
    for index in range(3):
        sigma = scores()
        ners_objective(sigma[[index]], 1.0, 0.5, sigma).backward()
        total += p[index] * sigma.grad
    torch.testing.assert_close(total, torch.zeros_like(total), rtol=0, atol=1e-12)


def test_ero_moves_logits_by_what_was_kept_minus_its_probability():
    logits = torch.tensor([0.7, 0.2], dtype=torch.float64).logit().requires_grad_()
    ero_objective(logits, torch.tensor([1.0, 0.0], dtype=torch.float64), 2.0).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([0.6, -0.4], dtype=torch.float64), rtol=0, atol=1e-12)


def test_ero_objective_is_the_log_likelihood():
    phi, kept = torch.tensor([0.7, 0.2, 0.5]), torch.tensor([1.0, 0.0, 1.0])
    expected = 3.0 * (kept * phi.log() + (1 - kept) * (1 - phi).log()).sum()
    torch.testing.assert_close(ero_objective(phi.logit(), kept, 3.0), expected)
