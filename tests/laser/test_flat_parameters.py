import numpy as np
import pytest
import torch
from torch import nn

from laser.flat_parameters import FlatParameters


def make_module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))


def test_outputs_and_gradients_are_those_of_the_plain_module():
    plain, flat = make_module(), make_module()
    parameters = FlatParameters(flat)
    inputs = torch.randn(5, 3, 8, 8)
    gradient = parameters.gradient_of(flat(inputs).square().sum())
    plain(inputs).square().sum().backward()
    expected = FlatParameters(plain)  # lays the weights out; the gradients are laid into them to be in that order
    with torch.no_grad():
        for item in plain.parameters():
            item.copy_(item.grad)
    torch.testing.assert_close(gradient, expected.trainable)


def test_what_a_loss_does_not_see_has_a_gradient_of_zero():
    module = make_module()
    gradient = FlatParameters(module).gradient_of(module[3].bias.sum())
    assert gradient.count_nonzero() == 2
    assert gradient[-2:].tolist() == [1.0, 1.0]


def test_the_vector_is_the_module():
    module = make_module()
    parameters = FlatParameters(module)
    with torch.no_grad():
        parameters.vector.fill_(0.25)
    assert all((item == 0.25).all() for item in module.parameters())
    assert (module[1].running_mean == 0.25).all(), "buffers travel with the parameters"
    assert module[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_load_restores_what_to_numpy_gave():
    one, other = make_module(), make_module()
    with torch.no_grad():
        for item in other.parameters():
            item.add_(1.0)
    vector = FlatParameters(one).to_numpy()
    assert not vector.flags.writeable
    FlatParameters(other).load_numpy(vector)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_a_part_is_published_and_the_rest_stays():
    one, other, untouched = (make_module() for _ in range(3))
    with torch.no_grad():
        for item in [*other.parameters(), *untouched.parameters()]:
            item.add_(1.0)
        one[1].running_var.fill_(3.0)
    published = ("0.", "3.bias", "1.running")
    whole, part = FlatParameters(one), FlatParameters(other, published)
    with pytest.raises(ValueError, match="must have"):
        part.load_numpy(whole.to_numpy())
    part.load_numpy(FlatParameters(one, published).to_numpy())
    sent = other.state_dict()
    for name, value in one.state_dict().items():
        if value.dtype == torch.float32:
            kept = value if name.startswith(published) else untouched.state_dict()[name]
            torch.testing.assert_close(sent[name], kept, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"begin with one of \['critic'\]"):
        FlatParameters(make_module(), ["critic"])


def test_a_module_without_parameters_has_nothing_to_publish():
    parameters = FlatParameters(nn.Flatten())
    assert parameters.to_numpy().shape == (0,)
    parameters.load_numpy(np.zeros(0, np.float32))


def test_a_vector_of_other_networks_is_refused():
    with pytest.raises(ValueError, match="must have"):
        FlatParameters(make_module()).load_numpy(np.zeros(3, np.float32))


def test_only_float32_parameters():
    with pytest.raises(ValueError, match="float32"):
        FlatParameters(nn.Linear(2, 2).double())
