import numpy as np
import pytest
import torch

from laser.ops.pixel_control import pixel_changes, pixel_control_targets

T, B, ROWS, COLUMNS = 5, 3, 2, 3


def test_the_published_numbers():
    frames = torch.zeros(2, 1, 1, 8, 8, dtype=torch.uint8)
    frames[1, 0, 0, :2, :2] = 128  # about half of the range
    frames[1, 0, 0, 6, 7] = 255
    expected = torch.tensor([[[[0.125 * 128 / 127.5, 0.0], [0.0, 0.0625]]]])
    torch.testing.assert_close(pixel_changes(frames, 4), expected)


@pytest.mark.parametrize(("height", "width", "cell"), [(8, 8, 4), (11, 7, 3), (6, 9, 1)])
def test_changes_are_means_over_cells(height, width, cell):
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (4, 2, 3, height, width), generator=generator, dtype=torch.uint8)
    changes = pixel_changes(frames, cell)
    pixels = frames.double().numpy() / 255.0
    assert changes.shape == (3, 2, height // cell, width // cell)
    for t, b, i, j in np.ndindex(*changes.shape):
        part = np.s_[:, i * cell : (i + 1) * cell, j * cell : (j + 1) * cell]
        expected = np.abs(pixels[t + 1, b][part] - pixels[t, b][part]).mean()
        assert changes[t, b, i, j].item() == pytest.approx(expected, rel=1e-6)


def literal_targets(changes, best, terminated, used, discount, mistake=None):
    targets = np.zeros_like(changes)
    for b in range(changes.shape[1]):
        following = best[-1, b]
        for t in reversed(range(len(changes))):
            if t + 1 < len(changes):
                goes_on = used[t + 1, b] or mistake == "across"
                following = targets[t + 1, b] if goes_on else best[t + 1, b]
            keep = discount * (1.0 if mistake == "no_end" else 1.0 - terminated[t, b])
            targets[t, b] = changes[t, b] + keep * following
    return targets


def make():
    generator = np.random.default_rng(0)
    changes = generator.random((T, B, ROWS, COLUMNS))
    best = generator.normal(size=(T + 1, B, ROWS, COLUMNS))
    terminated, used = generator.random((T, B)) < 0.3, generator.random((T, B)) < 0.6
    return changes, best, terminated, used


def test_targets_are_the_literal_recursion():
    data = make()
    got = pixel_control_targets(*map(torch.tensor, data), 0.9)
    np.testing.assert_allclose(got.numpy(), literal_targets(*data, 0.9), rtol=1e-12)
    for mistake in ("across", "no_end"):
        wrong = literal_targets(*data, 0.9, mistake)
        assert np.abs(got.numpy() - wrong)[data[3]].max() > 0.1


def test_the_last_row_bootstraps_from_the_best_action():
    changes, best, _, _ = (torch.tensor(x) for x in make())
    none, all_used = torch.zeros(T, B, dtype=torch.bool), torch.ones(T, B, dtype=torch.bool)
    targets = pixel_control_targets(changes, best, none, all_used, 0.5)
    torch.testing.assert_close(targets[-1], changes[-1] + 0.5 * best[-1])
    powers = 0.5 ** torch.arange(T, dtype=torch.float64)[:, None, None, None]
    torch.testing.assert_close(targets[0], (powers * changes).sum(0) + 0.5**T * best[-1])
