import numpy as np
import pytest
import torch

from laser.ops.popart import TargetStatistics, preserve_outputs, update_statistics

STEP = 0.1


def statistics(means, mean_squares, dtype=torch.float64):
    mean, mean_square = torch.tensor(means, dtype=dtype), torch.tensor(mean_squares, dtype=dtype)
    return TargetStatistics(mean, mean_square - mean.square())


def literal_update(means, mean_squares, targets, tasks, used, step, count="unrolls"):
    """The paper's two moving averages, task by task; `count` says what n in 1 - (1 - step)^n counts."""
    means, mean_squares = means.copy(), mean_squares.copy()
    for task in range(len(means)):
        rows = used & (tasks == task)
        n = rows.any(0).sum() if count == "unrolls" else rows.sum()
        if n:
            b = 1.0 - (1.0 - step) ** n
            means[task] = (1 - b) * means[task] + b * targets[rows].mean()
            mean_squares[task] = (1 - b) * mean_squares[task] + b * (targets[rows] ** 2).mean()
    return means, mean_squares


def make(num_rows=5, num_columns=6, num_tasks=3):
    generator = np.random.default_rng(0)
    targets = 50.0 * generator.normal(size=(num_rows, num_columns)) + 20.0
    tasks = np.repeat(generator.integers(0, num_tasks - 1, size=(1, num_columns)), num_rows, 0)
    tasks[2:, 0] = num_tasks - 2  # a column that changes its task amid
    used = generator.random((num_rows, num_columns)) < 0.7
    return targets, tasks, used


def test_the_published_numbers():
    weight, bias = torch.tensor([[0.5, -1.0], [2.0, 0.3]]), torch.tensor([0.1, -0.2])
    features, old = torch.tensor([1.0, 2.0]), statistics([0.0, 0.0], [1.0, 1.0], torch.float32)
    one = torch.ones(1, 1, dtype=torch.bool)
    new = update_statistics(old, torch.full((1, 1), 10.0), torch.zeros(1, 1, dtype=torch.int64), one, STEP)
    torch.testing.assert_close(new.mean, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(new.variance + new.mean.square(), torch.tensor([10.9, 1.0]))
    torch.testing.assert_close(new.scale, torch.tensor([3.146427, 1.0]), rtol=0, atol=1e-6)
    new_weight, new_bias = preserve_outputs(weight, bias, old, new)
    torch.testing.assert_close(new_weight, torch.tensor([[0.15891, -0.317821], [2.0, 0.3]]), rtol=0, atol=1e-6)
    torch.testing.assert_close(new_bias, torch.tensor([-0.286039, -0.2]), rtol=0, atol=1e-6)
    after = new.scale * (new_weight @ features + new_bias) + new.mean
    torch.testing.assert_close(after, torch.tensor([-1.4, 2.4]))


def test_updates_are_the_papers_moving_averages():
    targets, tasks, used = make()
    means, mean_squares = np.array([1.0, -2.0, 0.5]), np.array([5.0, 9.0, 1.0])
    new = update_statistics(statistics(means, mean_squares), *map(torch.tensor, (targets, tasks, used)), STEP)
    wanted_means, wanted_squares = literal_update(means, mean_squares, targets, tasks, used, STEP)
    np.testing.assert_allclose(new.mean.numpy(), wanted_means, rtol=1e-12)
    np.testing.assert_allclose((new.variance + new.mean**2).numpy(), wanted_squares, rtol=1e-12)
    assert new.mean[2] == 0.5, "a task without targets moved"
    assert new.variance[2] == 0.75
    per_target, _ = literal_update(means, mean_squares, targets, tasks, used, STEP, count="targets")
    assert np.abs(per_target[:2] - wanted_means[:2]).min() > 0.1, "the data cannot tell what n counts"


def test_targets_that_do_not_count_may_be_anything():
    targets, tasks, used = make()
    old = statistics([1.0, -2.0, 0.5], [5.0, 9.0, 1.0])
    junk = np.where(used, targets, np.nan)
    clean, dirty = (update_statistics(old, *map(torch.tensor, (each, tasks, used)), STEP) for each in (targets, junk))
    assert torch.equal(clean.mean, dirty.mean)
    assert torch.equal(clean.variance, dirty.variance)


def test_outputs_are_the_same_before_and_after_for_every_task():
    generator = torch.Generator().manual_seed(0)
    weight, bias, features = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((3, 4), (3,), (9, 4)))
    old, new = statistics([1.0, -20.0, 0.5], [5.0, 900.0, 1.0]), statistics([100.0, 3.0, 0.5], [2e4, 10.0, 1.0])
    new_weight, new_bias = preserve_outputs(weight, bias, old, new)
    before = old.scale * (features @ weight.T + bias) + old.mean
    after = new.scale * (features @ new_weight.T + new_bias) + new.mean
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("size", [0.0, 1e12])
def test_the_scale_stays_within_its_bounds(size):
    old = TargetStatistics(torch.zeros(1), torch.ones(1))
    for _ in range(200):
        targets = size * torch.tensor([[1.0, -1.0]])
        used = torch.ones(1, 2, dtype=torch.bool)
        old = update_statistics(old, targets, torch.zeros(1, 2, dtype=torch.int64), used, STEP)
    assert old.scale.item() == pytest.approx(1e-4 if size == 0.0 else 1e6)


def test_a_large_mean_does_not_drown_the_spread_in_float32():
    targets = 1e5 + torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))
    used, tasks = torch.ones(1000, 1, dtype=torch.bool), torch.zeros(1000, 1, dtype=torch.int64)
    old = TargetStatistics(torch.zeros(1), torch.ones(1))
    for _ in range(400):
        old = update_statistics(old, targets, tasks, used, STEP)
    assert old.scale.item() == pytest.approx(targets.std().item(), rel=0.01)
