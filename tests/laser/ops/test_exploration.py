"""Epsilon-greedy policies: their probabilities, and how often actions are really drawn."""

import math

import pytest
import torch

from laser.ops.distributions import Categorical
from laser.ops.exploration import LEAST_PROBABILITY, epsilon_greedy_logits, linear_between


def test_probabilities_are_those_of_the_definition():
    q_values = torch.tensor([[0.0, 2.0, 1.0, -1.0], [5.0, 5.0, 5.0, 5.0]], dtype=torch.float64)
    probabilities = epsilon_greedy_logits(q_values, 0.2).exp()
    expected = torch.tensor([[0.05, 0.85, 0.05, 0.05], [0.85, 0.05, 0.05, 0.05]], dtype=torch.float64)
    torch.testing.assert_close(probabilities, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_ends_are_finite(epsilon):
    logits = epsilon_greedy_logits(torch.tensor([[1.0, 0.0]]), epsilon)
    assert torch.isfinite(logits).all()
    assert logits[0, 1].exp().item() == pytest.approx(LEAST_PROBABILITY if epsilon == 0.0 else 0.5)


def chi_square(counts, probabilities):
    expected = probabilities * counts.sum()
    return ((counts - expected) ** 2 / expected).sum().item()


@pytest.mark.parametrize(("said", "alike"), [(0.3, True), (0.2, False)])
def test_actions_come_as_often_as_the_logits_say(said, alike):
    num_draws, num_actions = 20_000, 5
    q_values = torch.tensor([0.0, 1.0, 3.0, 2.0, -1.0]).expand(num_draws, num_actions)
    drawn = Categorical(num_actions).sample(
        {"logits": epsilon_greedy_logits(q_values, 0.3)}, torch.Generator().manual_seed(0)
    )
    counts = torch.bincount(drawn, minlength=num_actions).double()
    probabilities = epsilon_greedy_logits(q_values[:1].double(), said).exp()[0]
    # 18.5 is the 99.9 % point of chi-square with 4 degrees of freedom.
    assert (chi_square(counts, probabilities) < 18.5) is alike


def test_schedules_are_straight_and_then_stay():
    counts = torch.tensor([0.0, 25.0, 50.0, 100.0, 1e6])
    torch.testing.assert_close(linear_between(1.0, 0.2, counts, 100), torch.tensor([1.0, 0.8, 0.6, 0.2, 0.2]))
    assert linear_between(1.0, 0.0, torch.tensor(0.0), 1) == 1.0
    assert math.isclose(linear_between(1.0, 0.0, torch.tensor(1.0), 1).item(), 0.0)
