"""Heads of Q-learning: dueling's identity, noise's mean and variance, and shapes of the torsos made for them."""

import pytest
import torch
import torch.nn.functional as F

from laser.networks.action_values import ActionValueHead
from laser.networks.conv_net import CONV_NETS, ConvNet
from laser.networks.noisy import NoisyLinear, draw_factors
from laser.specs import FramesSpec


@pytest.mark.parametrize("noisy_std", [0.0, 0.7])
@pytest.mark.parametrize(("num_atoms", "hidden_size"), [(1, 0), (5, 8)])
def test_dueling_splits_outputs_into_a_state_and_advantages_around_zero(noisy_std, num_atoms, hidden_size):
    head = ActionValueHead(6, 4, num_atoms, hidden_size, dueling=True, noisy_std=noisy_std)
    features = torch.randn(10, 6)
    factors = draw_factors((head.num_factors,), torch.Generator().manual_seed(0), torch.device("cpu"))
    factors = factors if noisy_std else None
    outputs = head(features, factors)
    assert outputs.shape == (10, 4, num_atoms)

    def walk(layers, parts):
        hidden = features
        for number, layer in enumerate(layers):
            hidden = F.relu(hidden) if number else hidden
            hidden = layer(hidden, parts.pop(0)) if noisy_std else layer(hidden)
        return hidden

    sizes = [sum(layer.num_factors) for layer in [*head.advantage, *head.value]] if noisy_std else []
    parts = list(factors.split(sizes)) if noisy_std else []
    advantages = walk(head.advantage, parts).unflatten(-1, (4, num_atoms))
    values = walk(head.value, parts)
    torch.testing.assert_close(outputs.mean(1), values)
    torch.testing.assert_close(outputs - outputs.mean(1, keepdim=True), advantages - advantages.mean(1, keepdim=True))


def test_without_dueling_there_is_one_stream():
    head = ActionValueHead(6, 4, 5, 0, dueling=False, noisy_std=0.0)
    features = torch.randn(3, 6)
    assert sum(item.numel() for item in head.parameters()) == 7 * 20
    assert torch.equal(head(features), head.advantage[0](features).view(3, 4, 5))
    assert head.num_factors == 0


def noisy_layer(num_inputs=7, num_outputs=3):
    torch.manual_seed(0)
    layer = NoisyLinear(num_inputs, num_outputs, 0.5).double()
    with torch.no_grad():
        for item in layer.parameters():
            item.copy_(torch.randn_like(item))
    return layer


def test_noise_on_inputs_and_outputs_is_noise_on_the_weights():
    layer, features = noisy_layer(), torch.randn(5, 7, dtype=torch.float64)
    factors = draw_factors((5, 10), torch.Generator().manual_seed(1), torch.device("cpu")).double()
    outputs = layer(features, factors)
    for row in range(5):
        of_inputs, of_outputs = factors[row, :7], factors[row, 7:]
        weight = layer.weight + layer.weight_std * torch.outer(of_outputs, of_inputs)
        expected = weight @ features[row] + layer.bias + layer.bias_std * of_outputs
        torch.testing.assert_close(outputs[row], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(layer(features, factors[row])[row], expected, rtol=0, atol=1e-12)
    assert torch.equal(layer(features, None), F.linear(features, layer.weight, layer.bias))


def test_noise_has_the_stated_mean_and_variance():
    layer, num_draws = noisy_layer(), 200_000
    features = torch.randn(1, 7, dtype=torch.float64)
    factors = draw_factors((num_draws, 10), torch.Generator().manual_seed(2), torch.device("cpu")).double()
    assert abs(factors.mean().item()) < 5 * (0.8 / factors.numel()) ** 0.5
    outputs = layer(features.expand(num_draws, 7), factors)
    # f(e)^2 = |e|, whose mean is v = sqrt(2 / pi). Var = v^2 sum_i (S_oi x_i)^2 + v s_o^2: the parts are uncorrelated.
    v = (2.0 / torch.pi) ** 0.5
    variance = v**2 * ((layer.weight_std * features) ** 2).sum(-1) + v * layer.bias_std**2
    error = (variance / num_draws).sqrt()
    assert ((outputs.mean(0) - layer(features, None)[0]).abs() < 5 * error).all()
    torch.testing.assert_close(outputs.var(0), variance, rtol=0.05, atol=0)


def test_the_size_of_the_noise_at_the_start():
    layer = NoisyLinear(16, 4, 0.5)
    torch.testing.assert_close(layer.weight_std, torch.full((4, 16), 0.125))
    torch.testing.assert_close(layer.bias_std, torch.full((4,), 0.25))
    assert layer.weight.abs().max() <= 0.25


def test_noise_is_precise_under_autocast():
    layer, features = NoisyLinear(16, 4, 0.5), torch.randn(3, 16)
    factors = draw_factors((20,), None, torch.device("cpu"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = layer(features, factors)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, layer(features, factors), rtol=0, atol=0)


def test_convolutions_alone():
    frames = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    net = ConvNet("der_cnn", CONV_NETS["der_cnn"], FramesSpec((84, 84), 4))
    assert net(frames).shape == (2, net.num_features)
    assert net.num_features == 64 * 3 * 3
    assert sum(item.numel() for item in net.parameters()) == 32 * (4 * 25 + 1) + 64 * (32 * 25 + 1)
    assert ConvNet("cells_cnn", CONV_NETS["cells_cnn"], FramesSpec((10, 10), 4)).num_features == 16 * 8 * 8
    with pytest.raises(ValueError, match="der_cnn needs frames of at least 25x25 pixels, got 84x24; use minatar_cnn"):
        ConvNet("der_cnn", CONV_NETS["der_cnn"], FramesSpec((84, 24), 4))
