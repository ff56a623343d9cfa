"""Nets side by side against the same nets one by one."""

import pytest
import torch
from torch import nn

from laser.networks.mlp import ACTIVATIONS
from laser.networks.parallel_mlp import ParallelMLP


@pytest.mark.parametrize("hidden_sizes", [(), (7,), (16, 8)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "crelu"])
def test_same_as_separate_nets(hidden_sizes, activation):
    torch.manual_seed(0)
    nets = ParallelMLP(3, 5, hidden_sizes, activation).double()
    inputs = torch.randn(11, 5, dtype=torch.float64)
    together = nets(inputs)
    assert together.shape == (3, 11)
    for net in range(3):
        layers: list[nn.Module] = []
        for weight, bias in zip(nets.weights, nets.biases, strict=True):
            layer = nn.Linear(weight.shape[1], weight.shape[2], dtype=torch.float64)
            with torch.no_grad():
                layer.weight.copy_(weight[net].T)
                layer.bias.copy_(bias[net, 0])
            layers += [layer, ACTIVATIONS[activation]()]
        torch.testing.assert_close(together[net], nn.Sequential(*layers[:-1])(inputs).squeeze(-1), rtol=1e-12, atol=0)


def test_it_starts_as_torchs_layers_do():
    torch.manual_seed(0)
    mine, theirs = ParallelMLP(2, 64, (256,), "relu"), nn.Linear(64, 256)
    for name in ("weight", "bias"):
        item, reference = getattr(mine, f"{name}s" if name == "weight" else "biases")[0], getattr(theirs, name)
        assert item.abs().max().item() == pytest.approx(1 / 8, rel=0.02)
        assert item.std().item() == pytest.approx(reference.std().item(), rel=0.1)
    assert not torch.equal(mine.weights[0][0], mine.weights[0][1])


def test_values_are_precise_under_autocast():
    nets = ParallelMLP(2, 5, (16, 8), "relu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nets(torch.randn(4, 5)).dtype == torch.float32


def test_the_first_layer_does_not_round_its_input_under_autocast():
    torch.manual_seed(0)
    nets, inputs = ParallelMLP(2, 5, (16,), "relu"), torch.randn(4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast, rounded = nets(inputs), nets(inputs.bfloat16())
    torch.testing.assert_close(under_autocast, nets(inputs), rtol=1e-6, atol=1e-6)
    assert not torch.equal(under_autocast, rounded)
