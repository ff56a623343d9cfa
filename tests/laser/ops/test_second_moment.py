"""The rows within a second moment, against counting by hand and every set that there is."""

import pytest
import torch

from laser.ops.second_moment import second_moment_mask

NEAR_TO_FAR = torch.tensor([[0.0, -0.1, 0.2], [-0.3, 0.4, -2.0]], dtype=torch.float64)
ALL = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [
        (0.0, 1),  # means of the squares: 0, 0.005, 0.0167, 0.035, 0.06, 0.717
        (0.0049, 1),
        (0.0051, 2),
        (0.03, 3),
        (0.04, 4),
        (0.061, 5),
        (0.72, 6),
        (float("inf"), 6),
    ],
)
def test_known_numbers(threshold, kept):
    mask = second_moment_mask(NEAR_TO_FAR, ALL, threshold)
    assert mask.flatten().tolist() == [place < kept for place in range(6)]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_largest_set_within_the_bound(seed):
    """Every smaller bound on single ratios that keeps more rows breaks the bound on their mean square."""
    generator = torch.Generator().manual_seed(seed)
    log_rhos = torch.randn(7, 5, generator=generator, dtype=torch.float64).round(decimals=1)
    valid = torch.rand(7, 5, generator=generator) < 0.8
    squares, threshold = log_rhos.square(), 0.03 * (seed + 1)
    sets = [valid & (squares <= bound) for bound in [-1.0, *squares[valid].tolist()]]
    expected = max((rows for rows in sets if squares[rows].sum() <= threshold * rows.sum() + 1e-12), key=torch.sum)
    assert 0 < expected.sum() < valid.sum()
    assert torch.equal(second_moment_mask(log_rhos, valid, threshold), expected)


@pytest.mark.parametrize("anything", [float("nan"), float("inf"), -float("inf"), 0.0])
def test_invalid_rows_count_for_nothing(anything):
    log_rhos, valid = NEAR_TO_FAR.clone(), ALL.clone()
    log_rhos[0, 0], valid[0, 0] = anything, False
    assert second_moment_mask(log_rhos, valid, 0.04).flatten().tolist() == [False, True, True, False, False, False]


def test_ties_are_left_out_together():
    """One of the two would fit; which one would depend on the order of the batch."""
    log_rhos = torch.tensor([[0.0, 0.0, 0.3, -0.3]])
    assert second_moment_mask(log_rhos, torch.ones(1, 4, dtype=torch.bool), 0.04).tolist() == [
        [True, True, False, False]
    ]
