import pytest
import torch

from laser.networks.pixel_control import PixelControlHead


@pytest.mark.parametrize(("rows", "columns"), [(20, 20), (21, 21), (18, 24), (1, 1), (2, 3), (4, 5)])
def test_every_grid_has_a_picture(rows, columns):
    torch.manual_seed(0)
    head = PixelControlHead(8, 5, rows, columns)
    output = head(torch.randn(3, 8))
    assert output.shape == (3, 5, rows, columns)
    output.square().sum().backward()
    assert all(parameter.grad.any() for parameter in head.parameters())


def test_advantages_are_around_the_value():
    head, features = PixelControlHead(8, 5, 4, 4), torch.randn(3, 8)
    before = head(features).mean(1)
    with torch.no_grad():
        head.advantage.weight.mul_(3.0)
    torch.testing.assert_close(head(features).mean(1), before)
