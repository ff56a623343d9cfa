import math

import pytest
import torch
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, Normal, kl_divergence

from laser.ops.distributions import Categorical, DiagonalGaussian, MultiCategorical, distribution_for
from laser.ops.trust_region import implied_policy_kl_multi
from laser.specs import ContinuousActions, DiscreteActions, MultiDiscreteActions

SIZES = (2, 3, 4)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def test_categorical_agrees_with_torch():
    ours, p, q = Categorical(5), {"logits": normal(6, 3, 5)}, {"logits": normal(6, 3, 5, seed=1)}
    theirs, other = TorchCategorical(logits=p["logits"]), TorchCategorical(logits=q["logits"])
    actions = theirs.sample()
    log_prob, entropy = ours.log_prob_and_entropy(p, actions)
    torch.testing.assert_close(log_prob, theirs.log_prob(actions))
    torch.testing.assert_close(ours.log_prob(p, actions), log_prob)
    torch.testing.assert_close(entropy, theirs.entropy())
    torch.testing.assert_close(ours.kl(p, q), kl_divergence(theirs, other))
    assert torch.equal(ours.mode(p), p["logits"].argmax(-1))


def test_multi_categorical_agrees_with_torch():
    ours, p, q = MultiCategorical(SIZES), {"logits": normal(6, 3, 9)}, {"logits": normal(6, 3, 9, seed=1)}
    theirs = [TorchCategorical(logits=part) for part in p["logits"].split(SIZES, -1)]
    others = [TorchCategorical(logits=part) for part in q["logits"].split(SIZES, -1)]
    actions = ours.sample(p, generator())
    assert actions.shape == (6, 3, 3)
    log_prob, entropy = ours.log_prob_and_entropy(p, actions)
    torch.testing.assert_close(log_prob, sum(part.log_prob(actions[..., i]) for i, part in enumerate(theirs)))
    torch.testing.assert_close(ours.log_prob(p, actions), log_prob)
    torch.testing.assert_close(entropy, sum(part.entropy() for part in theirs))
    torch.testing.assert_close(ours.kl(p, q), sum(kl_divergence(*pair) for pair in zip(theirs, others, strict=True)))
    assert torch.equal(ours.mode(p)[..., 1], p["logits"][..., 2:5].argmax(-1))


def test_gaussian_agrees_with_torch():
    ours = DiagonalGaussian(3)
    p = {"mean": normal(6, 3), "std": normal(6, 3, seed=1).abs() + 0.1}
    q = {"mean": normal(6, 3, seed=2), "std": normal(6, 3, seed=3).abs() + 0.1}
    theirs, other = (Independent(Normal(x["mean"], x["std"]), 1) for x in (p, q))
    actions = theirs.sample()
    log_prob, entropy = ours.log_prob_and_entropy(p, actions)
    torch.testing.assert_close(log_prob, theirs.log_prob(actions))
    torch.testing.assert_close(entropy, theirs.entropy())
    torch.testing.assert_close(ours.kl(p, q), kl_divergence(theirs, other))
    assert torch.equal(ours.mode(p), p["mean"])


def test_excluded_actions_give_numbers_and_gradients():
    logits = torch.tensor([0.3, -math.inf, 1.0], requires_grad=True)
    log_prob, entropy = Categorical(3).log_prob_and_entropy({"logits": logits}, torch.tensor(2))
    (log_prob + entropy).backward()
    assert entropy.isfinite()
    assert logits.grad.isfinite().all()
    same = {"logits": logits.detach()}
    assert Categorical(3).kl(same, same) == 0
    assert Categorical(3).kl({"logits": torch.zeros(3)}, same) == math.inf


NUM_SAMPLES = 100_000


def test_categorical_samples_have_the_right_frequencies():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0])
    statistics = {"logits": probabilities.log().expand(NUM_SAMPLES, 5)}
    actions = Categorical(5).sample(statistics, generator())
    counts = torch.bincount(actions, minlength=5)
    standard_errors = (NUM_SAMPLES * probabilities * (1 - probabilities)).sqrt()
    assert ((counts - NUM_SAMPLES * probabilities).abs() <= 5 * standard_errors).all()  # excludes action 4 exactly


def test_choices_are_sampled_independently():
    statistics = {"logits": torch.tensor([0.2, 0.8, 0.6, 0.4]).log().expand(NUM_SAMPLES, 4)}
    actions = MultiCategorical((2, 2)).sample(statistics, generator())
    expected = torch.tensor([[0.12, 0.08], [0.48, 0.32]])
    counts = torch.bincount(2 * actions[:, 0] + actions[:, 1], minlength=4).view(2, 2)
    assert ((counts / NUM_SAMPLES - expected).abs() < 5 * (expected / NUM_SAMPLES).sqrt()).all()


def test_gaussian_samples_have_the_right_moments():
    statistics = {"mean": torch.tensor([1.0, -2.0]).expand(NUM_SAMPLES, 2), "std": torch.tensor([0.5, 3.0])}
    samples = DiagonalGaussian(2).sample(statistics, generator())
    assert ((samples.mean(0) - torch.tensor([1.0, -2.0])).abs() < 5 * statistics["std"] / NUM_SAMPLES**0.5).all()
    assert ((samples.std(0) / statistics["std"] - 1).abs() < 5 / (2 * NUM_SAMPLES) ** 0.5).all()


@pytest.mark.parametrize("distribution", [Categorical(4), MultiCategorical((2, 2)), DiagonalGaussian(2)])
def test_a_generator_repeats_its_samples(distribution):
    statistics = {name: normal(50, size).abs() for name, size in distribution.sizes.items()}
    first, again = (distribution.sample(statistics, generator(4)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, distribution.sample(statistics, generator(5)))


def test_the_sampled_kl_of_many_choices_agrees_with_enumeration():
    sizes = (9, 8, 7)
    distribution = MultiCategorical(sizes)
    pi, mu = ({"logits": 0.5 * normal(5, 24, seed=seed)} for seed in (0, 1))
    noise = distribution.draw_noise(20_000, pi["logits"], generator())
    assert noise.shape == (20_000, 24)
    got = distribution.implied_kl(pi, mu, 1.0, noise)
    torch.testing.assert_close(got, implied_policy_kl_multi(pi["logits"], mu["logits"], sizes, 1.0), atol=0.02, rtol=0)
    assert MultiCategorical((2, 3)).draw_noise(64, pi["logits"], generator()) is None


def test_gaussian_noise_comes_in_pairs():
    noise = DiagonalGaussian(3).draw_noise(65, torch.zeros(1), generator())
    assert noise.shape == (65, 3)
    torch.testing.assert_close(noise[:32], -noise[33:])


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (DiscreteActions(4), Categorical(4)),
        (MultiDiscreteActions((2, 3)), MultiCategorical((2, 3))),
        (ContinuousActions((-1.0, 0.0), (1.0, 2.0)), DiagonalGaussian(2)),
    ],
)
def test_every_action_space_has_its_distribution(actions, expected):
    assert distribution_for(actions) == expected
