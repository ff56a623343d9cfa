import math

import numpy as np
import pytest
import torch
from literal_targets import literal_implied_kl

from laser.ops.trust_region import (
    implied_policy_kl,
    implied_policy_kl_gaussian,
    implied_policy_kl_multi,
    implied_policy_kl_sampled,
)

INF = math.inf


def kl_of(pi, mu, rho_clip=1.0):
    pi, mu = torch.tensor(pi, dtype=torch.float64), torch.tensor(mu, dtype=torch.float64)
    return implied_policy_kl(pi.log(), mu.log(), rho_clip).item()


@pytest.mark.parametrize(
    ("pi", "mu", "rho_clip", "expected"),
    [
        ((0.5, 0.5), (0.9, 0.1), 1.0, 0.293893),
        ((0.5, 0.5), (0.9, 0.1), 2.0, 0.101470),
        ((0.5, 0.5), (0.9, 0.1), 4.0, 0.006211),
        ((0.1, 0.9), (0.9, 0.1), 1.0, 0.368064),
        ((0.01, 0.99), (0.99, 0.01), 1.0, 0.637146),
        ((0.7, 0.2, 0.1), (0.2, 0.5, 0.3), 1.0, 0.183787),
        ((0.7, 0.2, 0.1), (0.2, 0.5, 0.3), 4.0, 0.0),
        ((0.5, 0.5), (1.0, 0.0), 1.0, INF),
    ],
)
def test_known_numbers(pi, mu, rho_clip, expected):
    assert kl_of(pi, mu, rho_clip) == pytest.approx(expected, abs=1e-6)


def random_policies(num_actions=5, scale=2.0, num_states=200):
    generator = np.random.default_rng(num_actions)
    logits = scale * generator.normal(size=(2, num_states, num_actions))
    return logits, np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


@pytest.mark.parametrize("rho_clip", [0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_it_is_the_divergence_from_the_implied_policy(rho_clip, dtype, tolerance):
    logits, (pi, mu) = random_policies()
    # Offsets: logits need not be normalised.
    got = implied_policy_kl(
        torch.tensor(logits[0] + 3.0, dtype=dtype), torch.tensor(logits[1] - 5.0, dtype=dtype), rho_clip
    )
    np.testing.assert_allclose(got.numpy(), literal_implied_kl(pi, mu, rho_clip), rtol=tolerance, atol=10 * tolerance)


def test_the_data_can_tell_the_mistakes():
    _, (pi, mu) = random_policies()
    right = literal_implied_kl(pi, mu, 1.0)
    assert not np.allclose(right, (pi * np.log(pi / mu)).sum(-1), atol=1e-2)  # KL(pi || mu)
    assert not np.allclose(right, (pi * np.maximum(0, np.log(pi / mu))).sum(-1), atol=1e-2)  # without log Z
    assert not np.allclose(right, literal_implied_kl(pi, mu, 2.0), atol=1e-2)
    assert not np.allclose(right, literal_implied_kl(mu, pi, 1.0), atol=1e-2)


@pytest.mark.parametrize("num_actions", [2, 18])
def test_on_policy_is_zero_and_never_negative(num_actions):
    logits = 10.0 * torch.randn(10_000, num_actions)
    kl = implied_policy_kl(logits, logits, 1.0)
    assert (kl >= 0).all()
    assert kl.max() < 1e-5


def test_a_clip_above_every_ratio_gives_zero():
    (pi_logits, mu_logits), (pi, mu) = random_policies()
    kl = implied_policy_kl(torch.tensor(pi_logits), torch.tensor(mu_logits), float((pi / mu).max()) * 1.001)
    assert kl.abs().max() < 1e-12


@pytest.mark.parametrize("rho_clip", [1.0, 3.0, INF])
@pytest.mark.parametrize(
    ("pi_logits", "mu_logits", "expected"),
    [
        ([-INF, 0.0], [0.0, 0.0], None),  # pi excludes: finite
        ([-INF, 0.0], [-INF, 0.0], 0.0),  # both exclude the same action
        ([0.0, 0.0], [-INF, 0.0], INF),
        ([0.0, -INF], [-INF, 0.0], INF),  # nothing in common
        ([-200.0, 0.0], [-INF, 0.0], INF),  # pi(a) underflows to 0 and is still allowed
        ([-300.0, 0.0], [0.0, -300.0], None),
        ([1e30, 0.0], [0.0, 1e4], None),
    ],
)
def test_no_nan_at_the_edges(pi_logits, mu_logits, expected, rho_clip):
    kl = implied_policy_kl(torch.tensor(pi_logits), torch.tensor(mu_logits), rho_clip).item()
    assert kl >= 0.0  # NaN fails this
    if expected is not None:
        assert kl == expected


def test_leading_axes_and_no_gradient():
    logits = torch.randn(4, 3, 6, requires_grad=True)
    kl = implied_policy_kl(logits, torch.randn(4, 3, 6), 1.0)
    assert kl.shape == (4, 3)
    assert not kl.requires_grad


@pytest.mark.parametrize("rho_clip", [0.0, -1.0, float("nan")])
def test_a_clip_that_is_not_positive_is_refused(rho_clip):
    with pytest.raises(ValueError, match="rho_clip must be above 0"):
        implied_policy_kl(torch.zeros(2), torch.zeros(2), rho_clip)


def test_several_choices_are_one_joint_action():
    (pi, mu) = random_policies(num_actions=5)[1]
    sizes = (2, 3)
    parts = [(p[:, :2] / p[:, :2].sum(-1, keepdims=True), p[:, 2:] / p[:, 2:].sum(-1, keepdims=True)) for p in (pi, mu)]
    joint = [np.einsum("sa,sb->sab", *part).reshape(-1, 6) for part in parts]
    logits = [torch.tensor(np.log(np.concatenate(part, -1))) for part in parts]
    got = implied_policy_kl_multi(*logits, sizes, 1.0).numpy()
    np.testing.assert_allclose(got, literal_implied_kl(*joint, 1.0), rtol=1e-11, atol=1e-12)
    separate = sum(literal_implied_kl(p, m, 1.0) for p, m in zip(*parts, strict=True))
    assert not np.allclose(got, separate, atol=1e-2)


NUM_SAMPLES = 200_000


def test_samples_estimate_the_exact_number():
    _, (pi, mu) = random_policies(num_states=20)
    generator = torch.Generator().manual_seed(0)
    actions = torch.multinomial(torch.tensor(pi), NUM_SAMPLES, replacement=True, generator=generator)
    log_ratios = torch.tensor(np.log(pi) - np.log(mu)).gather(-1, actions).T
    got = implied_policy_kl_sampled(log_ratios, 1.0)
    standard_error = log_ratios.clamp(min=0).std(0) / math.sqrt(NUM_SAMPLES)
    # The error of log Z is of the same order; 5 of each.
    assert ((got - torch.tensor(literal_implied_kl(pi, mu, 1.0))).abs() < 10 * standard_error + 1e-4).all()


def test_samples_where_mu_excludes():
    log_ratios = torch.tensor([[0.0, INF, INF], [0.0, 0.1, INF]])
    assert implied_policy_kl_sampled(log_ratios, 1.0).tolist() == [0.0, INF, INF]


def gaussian_noise(num_samples, num_dimensions):
    return torch.randn(num_samples, num_dimensions, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_gaussians_known_number():
    one = torch.ones(1, dtype=torch.float64)
    kl = implied_policy_kl_gaussian(0.0 * one, 0.5 * one, 0.3 * one, 0.5 * one, 1.0, gaussian_noise(NUM_SAMPLES, 1))
    assert kl.item() == pytest.approx(0.0710, abs=0.002)


def test_gaussians_are_their_own_log_ratios():
    """The two matrix products against torch's densities at the sampled actions."""
    generator = torch.Generator().manual_seed(2)
    pi_mean, mu_mean = torch.randn(2, 5, 4, 3, generator=generator, dtype=torch.float64)
    pi_std, mu_std = 0.2 + torch.rand(2, 5, 4, 3, generator=generator, dtype=torch.float64)
    noise = gaussian_noise(64, 3)
    actions = pi_mean + pi_std * noise.view(64, 1, 1, 3)
    pi, mu = torch.distributions.Normal(pi_mean, pi_std), torch.distributions.Normal(mu_mean, mu_std)
    expected = implied_policy_kl_sampled((pi.log_prob(actions) - mu.log_prob(actions)).sum(-1), 1.5)
    got = implied_policy_kl_gaussian(pi_mean, pi_std, mu_mean, mu_std, 1.5, noise)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)


def test_gaussians_on_policy_is_exactly_zero():
    mean, std = torch.randn(7, 3), torch.rand(7, 3) + 0.1
    assert not implied_policy_kl_gaussian(mean, std, mean, std, 1.0, torch.randn(64, 3)).any()


def test_gaussians_far_apart_stay_finite():
    mean, std = torch.zeros(1, 2), torch.full((1, 2), 1e-3)
    kl = implied_policy_kl_gaussian(mean + 50.0, std, mean, std, 1.0, torch.randn(64, 2))
    assert kl.isfinite().all()
    assert kl > 1.0
