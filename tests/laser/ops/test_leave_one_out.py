"""The estimators against enumeration on bandits: exact means, biases and variances."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from laser.ops import leave_one_out as ops

PI, Q_PI, Q_HAT = np.array([0.7, 0.2, 0.1]), np.array([1.0, 0.0, 2.0]), np.array([0.5, 0.2, 1.0])
NOISE = 0.5
MUS = {"near": np.array([0.1, 0.3, 0.6]), "far": np.array([0.01, 0.39, 0.6])}
EXACT = np.array([0.07, -0.18, 0.11])
# estimator, clip: (bias, variance) with mu near, with mu far, and with exact action values and mu near
TABLE = {
    ("importance_sampling", math.inf): [(0, 0.431529), (0, 3.563696), (0, 0.322687)],
    ("importance_sampling", 5.0): [(0.037417, 0.268063), (0.121604, 0.097376), (0, 0.237111)],
    ("leave_one_out", 1.0): [(0.127240, 0.013423), (0.134324, 0.010966), (0, 0.007145)],
    ("leave_one_out", 2.0): [(0.120389, 0.046345), (0.136866, 0.037106), (0, 0.026123)],
    ("leave_one_out", 5.0): [(0.065479, 0.144215), (0.124410, 0.057458), (0, 0.086458)],
    ("leave_one_out", math.inf): [(0, 0.392663), (0, 3.469490), (0, 0.215083)],
}
NAMES = [f"{name}-{clip:g}" for name, clip in TABLE]


def gradient(name, clip, action, reward, mu, q_hat=Q_HAT, pi=PI):
    """What autograd makes of the objective, with respect to softmax logits."""
    logits = torch.tensor(np.log(pi), requires_grad=True)
    objective = getattr(ops, name)(
        logits.log_softmax(-1),
        torch.tensor(q_hat),
        torch.tensor(float(reward), dtype=torch.float64),
        torch.tensor(action),
        torch.tensor(np.log(mu)),
        clip,
    )
    return torch.autograd.grad(objective, logits)[0].numpy()


def literal(name, clip, action, reward, mu, q_hat=Q_HAT, pi=PI):
    """The paper's formulas, term by term."""
    d_pi = np.diag(pi) - np.outer(pi, pi)  # d pi(a) / d logits
    d_log_pi = d_pi / pi[:, None]
    if name == "leave_one_out":
        beta = min(clip, 1 / mu[action])
        return beta * (reward - q_hat[action]) * d_pi[action] + sum(q_hat[a] * d_pi[a] for a in range(len(pi)))
    value = float(pi @ q_hat)
    whole = min(clip, pi[action] / mu[action]) * (reward - value) * d_log_pi[action]
    for a in range(len(pi)):
        whole = whole + max(pi[a] / mu[a] - clip, 0.0) * mu[a] * (q_hat[a] - value) * d_log_pi[a]
    return whole


def moments(name, clip, mu, q_hat=Q_HAT):
    """Mean and total variance over A ~ mu and returns with noise of standard deviation `NOISE`, enumerated.

    Estimators are linear in the return, so two equally likely returns at +-NOISE have the same two moments.
    """
    outcomes = [
        (mu[a] / 2, gradient(name, clip, a, Q_PI[a] + sign * NOISE, mu, q_hat)) for a in range(3) for sign in (-1, 1)
    ]
    mean = sum(p * g for p, g in outcomes)
    return mean, sum(p * ((g - mean) ** 2).sum() for p, g in outcomes)


@pytest.mark.parametrize(("name", "clip"), TABLE, ids=NAMES)
@pytest.mark.parametrize("mu", MUS.values(), ids=MUS)
def test_autograd_of_the_objective_is_the_estimator(name, clip, mu):
    for action in range(3):
        for reward in (-1.0, 0.3, 4.0):
            got = gradient(name, clip, action, reward, mu)
            np.testing.assert_allclose(got, literal(name, clip, action, reward, mu), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("name", "clip"), TABLE, ids=NAMES)
def test_the_table_of_bias_and_variance(name, clip):
    cases = [(MUS["near"], Q_HAT), (MUS["far"], Q_HAT), (MUS["near"], Q_PI)]
    for (mu, q_hat), (bias, variance) in zip(cases, TABLE[name, clip], strict=True):
        mean, got = moments(name, clip, mu, q_hat)
        assert np.linalg.norm(mean - EXACT) == pytest.approx(bias, abs=1e-6)
        assert got == pytest.approx(variance, abs=1e-6)


def test_one_estimate_of_each_action_without_noise():
    mu = MUS["near"]
    expected = {
        1.0: [(0.112, -0.128, 0.016), (0.035, -0.09, 0.055), (-0.063, -0.078, 0.141)],
        math.inf: [(1.057, -0.758, -0.299), (0.100333, -0.164667, 0.064333), (-0.109667, -0.091333, 0.201)],
    }
    for clip, rows in expected.items():
        got = [gradient("leave_one_out", clip, a, Q_PI[a], mu) for a in range(3)]
        np.testing.assert_allclose(got, rows, atol=1e-6)


@pytest.mark.parametrize("clip", [1.0, 1.5, 2.0, 5.0, 30.0, math.inf])
def test_the_bias_is_that_of_proposition_1(clip):
    generator = np.random.default_rng(1)
    for _ in range(20):
        pi, mu = generator.dirichlet(np.ones(5), 2)
        q_pi, q_hat = generator.normal(size=(2, 5))
        d_pi = np.diag(pi) - np.outer(pi, pi)
        mean = sum(mu[a] * gradient("leave_one_out", clip, a, q_pi[a], mu, q_hat, pi) for a in range(5))
        betas = np.minimum(clip, 1 / mu)
        bias = ((1 - mu * betas) * (q_hat - q_pi)) @ d_pi
        np.testing.assert_allclose(mean - q_pi @ d_pi, bias, atol=1e-12)
        if math.isinf(clip):
            np.testing.assert_allclose(bias, 0.0, atol=1e-12)
        # Exact action values: no bias, whatever beta.
        mean = sum(mu[a] * gradient("leave_one_out", clip, a, q_pi[a], mu, q_pi, pi) for a in range(5))
        np.testing.assert_allclose(mean, q_pi @ d_pi, atol=1e-12)


@pytest.mark.parametrize("clip", [1.0, 3.0, math.inf])
def test_truncation_and_correction_make_the_whole_gradient_of_exact_values(clip):
    mu = MUS["far"]
    mean = sum(mu[a] * gradient("importance_sampling", clip, a, Q_PI[a], mu, Q_PI) for a in range(3))
    np.testing.assert_allclose(mean, EXACT, atol=1e-12)


def test_only_the_policy_is_differentiated():
    inputs = [torch.randn(4, 3, requires_grad=True) for _ in range(3)]
    returns = torch.randn(4, requires_grad=True)
    log_probs, q_values, log_mu = inputs[0].log_softmax(-1), inputs[1], inputs[2].log_softmax(-1)
    for function in (ops.leave_one_out, ops.importance_sampling):
        for clip in (2.0, math.inf):
            loss = function(log_probs, q_values, returns, torch.tensor([0, 1, 2, 0]), log_mu, clip).sum()
            others = torch.autograd.grad(loss, [*inputs[1:], returns], allow_unused=True, retain_graph=True)
            assert others == (None, None, None)
            assert torch.autograd.grad(loss, inputs[0], retain_graph=True)[0].abs().sum() > 0


def test_actions_that_the_behaviour_excludes_do_no_harm():
    log_mu = torch.tensor([0.5, 0.5, 0.0]).log()
    log_probs = torch.zeros(3).log_softmax(-1).requires_grad_()
    for function in (ops.leave_one_out, ops.importance_sampling):
        for clip in (2.0, math.inf):
            objective = function(log_probs, torch.ones(3), torch.tensor(2.0), torch.tensor(1), log_mu, clip)
            assert torch.isfinite(torch.autograd.grad(objective, log_probs)[0]).all()


def test_the_action_gap_is_the_mean_distance_to_the_other_actions():
    generator = np.random.default_rng(0)
    q_values, rows = generator.normal(size=(4, 3, 5)), generator.random((4, 3)) < 0.6
    gaps = [
        np.mean([q_values[t, b].max() - q_values[t, b, a] for a in range(5) if a != q_values[t, b].argmax()])
        for t in range(4)
        for b in range(3)
        if rows[t, b]
    ]
    assert ops.mean_action_gap(torch.tensor(q_values), torch.tensor(rows)).item() == pytest.approx(np.mean(gaps))
    assert ops.mean_action_gap(torch.tensor(q_values), torch.zeros(4, 3, dtype=torch.bool)).item() == 0.0
    single = torch.zeros(4, 3, dtype=torch.bool)
    single[tuple(np.argwhere(rows)[0])] = True
    assert ops.mean_action_gap(torch.tensor(q_values), single).item() == pytest.approx(gaps[0])
