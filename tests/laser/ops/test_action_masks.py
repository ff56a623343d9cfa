"""Masks of logits and means over what is allowed, against sums written out, and their gradients."""

import math

import pytest
import torch

from laser.ops.action_masks import MASKED, count_allowed, find_mask, mask_logits, mean_of_allowed
from laser.ops.distributions import Categorical, MultiCategorical
from laser.ops.exploration import LEAST_PROBABILITY, epsilon_greedy_logits
from laser.ops.leave_one_out import mean_action_gap

GENERATOR = torch.Generator().manual_seed(0)
VALUES = torch.randn(50, 6, generator=GENERATOR, dtype=torch.float64)
MASK = torch.rand(50, 6, generator=GENERATOR) < 0.5
MASK[:, 2] = True
ROWS = [(values[mask], mask) for values, mask in zip(VALUES, MASK, strict=True)]


def test_means_and_counts_are_over_the_allowed_actions():
    torch.testing.assert_close(mean_of_allowed(VALUES, MASK)[:, 0], torch.stack([own.mean() for own, _ in ROWS]))
    torch.testing.assert_close(mean_of_allowed(VALUES, None), VALUES.mean(-1, keepdim=True))
    assert count_allowed(MASK)[:, 0].tolist() == [len(own) for own, _ in ROWS]
    nothing = torch.zeros(1, 6, dtype=torch.bool)
    assert mean_of_allowed(VALUES[:1], nothing).item() == 0.0


def test_only_bools_are_masks():
    assert find_mask({"action_mask": MASK}) is MASK
    assert find_mask({"action_mask": MASK.float()}) is None
    assert find_mask({"observation": MASK}) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_divergences_and_their_gradients_are_those_of_the_allowed_actions(dtype):
    other = torch.randn(50, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pi, mu = (logits.to(dtype, copy=True).requires_grad_() for logits in (VALUES, other))
    masked = [{"logits": mask_logits(logits, MASK)} for logits in (pi, mu)]
    kl, backward = Categorical(6).kl(*masked), Categorical(6).kl(*masked[::-1])
    entropy = Categorical(6).log_prob_and_entropy(masked[0], torch.full((50,), 2))[1]
    implied = Categorical(6).implied_kl(*masked, 1.0, None)
    several = MultiCategorical((2, 4)).implied_kl(*masked, 1.0, None) if MASK[:, :2].any(-1).all() else implied
    (kl + backward + entropy).sum().backward()
    for result in (kl, backward, entropy, implied, several, pi.grad, mu.grad):
        assert torch.isfinite(result).all()
    assert not pi.grad[~MASK].any()
    assert not mu.grad[~MASK].any()
    if dtype == torch.float64:
        for row, (own, mask) in enumerate(ROWS):
            p, q = ({"logits": logits} for logits in (own, other[row][mask]))
            small = Categorical(len(own))
            torch.testing.assert_close(kl[row], small.kl(p, q), rtol=1e-6, atol=1e-9)
            torch.testing.assert_close(implied[row], small.implied_kl(p, q, 1.0, None), rtol=1e-6, atol=1e-9)
            expected = small.log_prob_and_entropy(p, torch.zeros((), dtype=torch.int64))[1]
            torch.testing.assert_close(entropy[row], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_is_shared_by_the_allowed_actions(epsilon):
    logits = epsilon_greedy_logits(VALUES, epsilon, MASK)
    assert (logits[~MASK] == MASKED).all()
    for found, (own, mask) in zip(logits, ROWS, strict=True):
        torch.testing.assert_close(found[mask], epsilon_greedy_logits(own, epsilon))
        assert found[mask].min() >= math.log(LEAST_PROBABILITY) - 1e-9
    # Each forbidden action would come once in 10^8 draws, were it not for the constant.
    assert not logits.softmax(-1)[~MASK].any()


def test_the_gap_is_between_allowed_actions():
    rows = torch.rand(1, 50, generator=torch.Generator().manual_seed(2)) < 0.7
    gaps = []
    for counts, (own, _) in zip(rows[0].tolist(), ROWS, strict=True):
        if counts and len(own) > 1:
            best = own.max()
            gaps.append(best - (own.sum() - best) / (len(own) - 1))
    found = mean_action_gap(VALUES[None], rows, MASK[None])
    torch.testing.assert_close(found, torch.stack(gaps).mean())
