import math

import pytest
import torch

from laser.ops.policy_gradient import policy_gradient_loss, value_loss, weighted_sum, within_clip


def test_numbers_and_gradients():
    log_probs = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    advantages, weights = torch.tensor([[3.0, -4.0]], requires_grad=True), torch.tensor([[1.0, 0.5]])
    loss = policy_gradient_loss(log_probs, advantages, weights)
    loss.backward()
    assert loss.item() == -(3.0 * -1.0 + 0.5 * -4.0 * -2.0)
    assert log_probs.grad.tolist() == [[-3.0, 2.0]]
    assert advantages.grad is None

    values, targets = torch.tensor([[1.0, 2.0]], requires_grad=True), torch.tensor([[3.0, -1.0]], requires_grad=True)
    loss = value_loss(values, targets, weights)
    loss.backward()
    assert loss.item() == 0.5 * (4.0 + 0.5 * 9.0)
    assert values.grad.tolist() == [[-2.0, 1.5]]
    assert targets.grad is None


@pytest.mark.parametrize("nothing", [math.inf, -math.inf, math.nan])
def test_a_target_of_weight_zero_may_be_anything(nothing):
    values = torch.tensor([[1.0, 2.0]], requires_grad=True)
    loss = value_loss(values, torch.tensor([[nothing, 5.0]]), torch.tensor([[0.0, 2.0]]))
    loss.backward()
    assert loss.item() == 9.0
    assert values.grad.tolist() == [[0.0, -6.0]]


def test_rows_of_weight_zero_may_be_infinite():
    log_probs = torch.tensor([[-math.inf, -1.0]], requires_grad=True)
    weights = torch.tensor([[0.0, 2.0]])
    for loss in (policy_gradient_loss(log_probs, torch.ones(1, 2), weights), weighted_sum(log_probs, weights)):
        (gradient,) = torch.autograd.grad(loss, log_probs, retain_graph=True)
        assert abs(loss.item()) == 2.0
        assert gradient.isfinite().all()
        assert gradient[0, 0] == 0


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [
        (1.0, 1.0, True),
        (1.19, 1.0, True),
        (1.21, 1.0, False),
        (5.0, 1.0, False),
        (5.0, -1.0, True),  # back to where it was
        (0.1, 1.0, True),
        (1 / 1.19, -1.0, True),
        (1 / 1.21, -1.0, False),
        (0.1, -1.0, False),
    ],
)
def test_a_row_moves_the_policy_until_its_ratio_is_at_the_clip(ratio, advantage, moves):
    log_rhos, advantages = torch.tensor([[math.log(ratio)]]), torch.tensor([[advantage]])
    assert within_clip(log_rhos, advantages, 0.2).item() == moves
    assert within_clip(log_rhos, advantages, math.inf) is None
