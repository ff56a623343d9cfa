import numpy as np
import pytest
import torch

from laser.ops.ppo import clipped_objective, gae_targets


def test_known_objective():
    rhos, advantages = torch.tensor([1.5, 0.5, 1.5, 0.5]), torch.tensor([1.0, 1.0, -1.0, -1.0])
    assert clipped_objective(rhos.log(), advantages, 0.2).tolist() == pytest.approx([1.2, 0.5, -1.5, -0.8])


def test_no_gradient_where_moving_on_pays_off_no_more():
    log_rhos = torch.tensor([1.5, 0.5, 1.5, 0.5]).log().requires_grad_(True)
    clipped_objective(log_rhos, torch.tensor([1.0, 1.0, -1.0, -1.0]), 0.2).sum().backward()
    assert log_rhos.grad.tolist() == pytest.approx([0.0, 0.5, -1.5, 0.0])


def test_known_advantages():
    deltas, zeros = torch.tensor([[1.0], [-0.5], [2.0]], dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64)
    got = gae_targets(deltas, torch.full_like(deltas, 0.995), zeros, zeros[0], lambda_=0.97)
    assert got.advantages.squeeze(-1).tolist() == pytest.approx([2.380454, 1.4303, 2.0], abs=1e-6)


def literal(rewards, discounts, values, bootstrap, valid, lambda_):
    """Equation 16 as a double sum that stops at a row without a transition."""
    num_rows, num_columns = rewards.shape
    following, advantages = np.concatenate([values[1:], bootstrap[None]]), np.zeros_like(rewards)
    for b in range(num_columns):
        for s in range(num_rows):
            weight = 1.0
            for t in range(s, num_rows):
                if not valid[t, b]:
                    break
                advantages[s, b] += weight * (rewards[t, b] + discounts[t, b] * following[t, b] - values[t, b])
                weight *= discounts[t, b] * lambda_
    return advantages


@pytest.mark.parametrize("lambda_", [0.0, 0.9, 1.0])
def test_advantages_are_the_double_sum(lambda_):
    generator = np.random.default_rng(0)
    rewards, values = generator.normal(size=(2, 9, 4))
    discounts, valid = 0.97 * (generator.random((9, 4)) > 0.15), generator.random((9, 4)) > 0.15
    bootstrap = generator.normal(size=4)
    got = gae_targets(
        *map(torch.tensor, (rewards, discounts, values, bootstrap)), lambda_=lambda_, valid=torch.tensor(valid)
    )
    expected = literal(rewards, discounts, values, bootstrap, valid, lambda_)
    np.testing.assert_allclose(got.advantages.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(got.returns.numpy(), values + expected, atol=1e-12)
    through = literal(rewards, discounts, values, bootstrap, np.ones_like(valid), lambda_)
    assert not np.allclose(through, expected, atol=1e-3), "the data cannot tell whether the trace is cut"
