import math

import pytest
import torch

from laser.ops.truncation_correction import (
    categorical_gradient,
    correction,
    gaussian_log_prob_gradient,
    truncated,
)

PI = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
MU = torch.tensor([0.02, 0.48, 0.5], dtype=torch.float64)
Q = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
VALUE = (PI * Q).sum()


def to_logits(gradient):
    """Return the gradient with respect to softmax logits of one with respect to the probabilities."""
    return PI * (gradient - (PI * gradient).sum(-1, keepdim=True))


def expected_gradient(clip, correct=True):
    """Return the mean over the behaviour's actions, with exact action values, by enumeration."""
    total = torch.zeros(3, dtype=torch.float64)
    for action in range(3):
        taken = torch.tensor(action)
        all_advantages = (Q - VALUE) * correct
        total += MU[action] * categorical_gradient(PI.log(), MU.log(), taken, Q[action] - VALUE, all_advantages, clip)
    return to_logits(total)


def test_known_numbers():
    exact = expected_gradient(10.0)
    part = expected_gradient(10.0, correct=False)
    assert part.tolist() == pytest.approx([-0.044, 0.258, -0.214])
    assert (exact - part).tolist() == pytest.approx([-0.016, 0.012, 0.004])
    assert exact.tolist() == pytest.approx([-0.06, 0.27, -0.21])


@pytest.mark.parametrize("clip", [1.0, 1.5, 5.0, 10.0, 40.0, math.inf])
def test_truncation_and_correction_make_the_policy_gradient_whatever_c_is(clip):
    torch.testing.assert_close(expected_gradient(clip), PI * (Q - VALUE), rtol=0, atol=1e-12)


@pytest.mark.parametrize("clip", [1.0, 5.0, 10.0])
def test_truncation_alone_is_biased_here(clip):
    assert not torch.allclose(expected_gradient(clip, correct=False), PI * (Q - VALUE), atol=1e-3)


def test_on_policy_there_is_nothing_to_correct():
    log_rhos = torch.zeros(4, dtype=torch.float64)
    assert torch.equal(correction(log_rhos, 1.0), log_rhos)
    assert torch.equal(truncated(log_rhos, 1.0), torch.ones_like(log_rhos))


def test_ratios_are_the_papers():
    rhos = torch.tensor([0.01, 0.5, 1.0, 9.9, 10.1, 1e4, 1e12], dtype=torch.float64)
    got = correction(rhos.log(), 10.0)
    assert got[:6].tolist() == pytest.approx([max(0.0, (rho - 10.0) / rho) for rho in rhos[:6].tolist()], abs=1e-9)
    assert truncated(rhos.log(), 10.0).tolist() == pytest.approx([min(10.0, rho) for rho in rhos.tolist()])
    # What the behaviour never does is left to the correction alone.
    assert correction(torch.tensor([math.inf]), 10.0).item() == pytest.approx(1.0, abs=1e-6)


def test_the_gaussian_gradient_is_that_of_the_log_density():
    mean = torch.tensor([0.2, -0.1], dtype=torch.float64, requires_grad=True)
    std = torch.tensor([0.3, 0.3], dtype=torch.float64, requires_grad=True)
    actions = torch.tensor([0.5, 0.1], dtype=torch.float64)
    log_prob = torch.distributions.Normal(mean, std).log_prob(actions).sum()
    expected = dict(zip(("mean", "std"), torch.autograd.grad(log_prob, (mean, std)), strict=True))
    got = gaussian_log_prob_gradient({"mean": mean.detach(), "std": std.detach()}, actions)
    torch.testing.assert_close(got, expected)
    assert (2.0 * got["mean"]).tolist() == pytest.approx([6.6667, 4.4444], abs=1e-4)
