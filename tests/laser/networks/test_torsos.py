import math

import pytest
import torch
import torch.nn.functional as F

from laser.config import find_problems
from laser.networks import pixels as pixels_module
from laser.networks.config import NetworkConfig
from laser.networks.conv_net import CONV_NETS, ConvNet
from laser.networks.encoder import ObservationEncoder, describe_observations
from laser.networks.impala_resnet import ImpalaResNet
from laser.networks.mlp import MLP
from laser.networks.pixels import PixelConv2d, flatten_pixels
from laser.specs import CategorySpec, FramesSpec, VectorSpec


def frames(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8)


SCREEN = FramesSpec((84, 84), 4)


def atari_cnn(spec, **options):
    return ConvNet("atari_cnn", CONV_NETS["atari_cnn"], spec, **options)


def num_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_atari_net_has_the_papers_size():
    net = atari_cnn(SCREEN)
    convolutions = (16 * 4 * 8 * 8 + 16) + (32 * 16 * 4 * 4 + 32)
    assert num_parameters(net) == convolutions + 32 * 9 * 9 * 256 + 256
    assert net(frames(2, 4, 84, 84)).shape == (2, 256)


@pytest.mark.parametrize("factor", [1, 2])
def test_the_residual_net_has_the_papers_size(factor):
    net = ImpalaResNet(SCREEN, factor)
    assert len([module for module in net.modules() if isinstance(module, torch.nn.Conv2d)]) == 15
    channels = [4, 16 * factor, 32 * factor, 32 * factor]
    convolutions = sum(
        9 * channels[i] * channels[i + 1] + channels[i + 1] + 4 * (9 * channels[i + 1] ** 2 + channels[i + 1])
        for i in range(3)
    )
    assert num_parameters(net) == convolutions + 32 * factor * 11 * 11 * 256 + 256
    assert net(frames(1, 4, 84, 84)).shape == (1, 256)


def test_the_residual_net_takes_small_frames_and_the_atari_net_says_it_does_not():
    assert ImpalaResNet(FramesSpec((10, 10, 3)))(frames(2, 3, 10, 10)).shape == (2, 256)
    with pytest.raises(ValueError, match="at least 20x20 pixels, got 19x84; use minatar_cnn, cells_cnn or imp"):
        atari_cnn(FramesSpec((19, 84), 4))
    with pytest.raises(
        ValueError, match=r"conv needs .* at least 36x36 pixels, got 10x10; name smaller network.filters"
    ):
        ObservationEncoder({"cells": FramesSpec((10, 10, 4))}, NetworkConfig(torso="conv"))


def test_an_array_too_small_for_a_picture_is_named():
    wrong = (
        r"none \(cells is 4x4x3, and a picture's sides are at least 5, or environment.picture-size\); use mlp or auto"
    )
    with pytest.raises(ValueError, match=wrong):
        ObservationEncoder({"cells": VectorSpec((4, 4, 3))}, NetworkConfig(torso="minatar_cnn"))


@pytest.mark.parametrize("kind", [atari_cnn, ImpalaResNet])
def test_normalised_units_are_rectified_standard_scores_of_each_frames_own(kind):
    torch.manual_seed(3)
    net, pixels, seen = kind(SCREEN, layer_norm=True), frames(5, 4, 84, 84), []
    net.linear.register_forward_hook(lambda module, inputs, outputs: seen.append(outputs.double()))
    features = net(pixels)
    (units,) = seen
    scores = (units - units.mean(1, keepdim=True)) / units.var(1, correction=0, keepdim=True).sqrt()
    torch.testing.assert_close(features.double(), scores.clamp_min(0), rtol=1e-3, atol=1e-3)
    assert num_parameters(net) == num_parameters(kind(SCREEN)) + 2 * 256


def test_the_setting_reaches_the_torso():
    environment = {"pixels": FramesSpec((84, 84, 1), 4)}
    (torso,) = ObservationEncoder(environment, NetworkConfig(layer_norm=True)).torsos
    assert isinstance(torso.norm, torch.nn.LayerNorm)


@pytest.mark.parametrize("torso", ["atari_cnn", "impala_resnet", "crelu_cnn", "der_cnn"])
def test_centered_filters_do_not_answer_to_an_even_background(torso):
    environment = {"pixels": FramesSpec((84, 84, 1), 4)}

    def change(centered):
        torch.manual_seed(5)
        (net,) = ObservationEncoder(environment, NetworkConfig(torso=torso, centered_filters=centered)).torsos
        first = next(module for module in net.modules() if isinstance(module, PixelConv2d))
        answers = [first(torch.full((1, 4, 84, 84), brightness, dtype=torch.uint8)) for brightness in (0, 200)]
        # A border of zeros is no even picture.
        return (answers[1] - answers[0])[:, :, 1:-1, 1:-1].abs().max().item()

    assert change(centered=True) < 1e-5
    assert change(centered=False) > 0.1


def test_units_that_are_not_there_cannot_be_normalised():
    (problem,) = find_problems(NetworkConfig(layer_norm=True, torso="crelu_cnn"))
    assert problem.key == "layer-norm"
    assert problem.remedy == "use false, or network.torso atari_cnn, nature_cnn, minatar_cnn, conv, impala_resnet"
    assert not list(find_problems(NetworkConfig(layer_norm=True, torso="impala_resnet")))
    with pytest.raises(ValueError, match=r"network.layer-norm: normalises the units behind frames"):
        ObservationEncoder({"state": VectorSpec((3,))}, NetworkConfig(layer_norm=True))
    with pytest.raises(ValueError, match=r"network.centered-filters: are filters over frames"):
        ObservationEncoder({"state": VectorSpec((3,))}, NetworkConfig(centered_filters=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pixels_count_as_if_scaled_to_one(dtype):
    layer, pixels = PixelConv2d(4, 8, 8, stride=4), frames(3, 4, 36, 36)
    expected = F.conv2d(pixels.double() / 255, layer.weight.double(), layer.bias.double(), stride=4)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        got = layer(pixels)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 2e-2)


def test_channels_of_zeros_for_a_gpu_change_no_feature_and_no_gradient(monkeypatch):
    layer, pixels, gradients, seen = PixelConv2d(4, 8, 8, stride=4), frames(3, 4, 36, 36), [], []
    convolve = F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda pixels, *rest: seen.append(pixels.shape[1]) or convolve(pixels, *rest))
    for at_once in (1, 8):
        monkeypatch.setitem(pixels_module._CHANNELS_AT_ONCE, "cpu", at_once)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            features = layer(pixels)
        gradients.append((features, *torch.autograd.grad(features.square().sum(), [layer.weight, layer.bias])))
    assert seen == [4, 8]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-2, atol=1e-2)


def test_frames_are_laid_out_channels_last_once(monkeypatch):
    seen = []
    convolve = F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda pixels, *rest: seen.append(pixels) or convolve(pixels, *rest))
    features = PixelConv2d(4, 8, 8, stride=4)(frames(3, 4, 36, 36))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
    assert flatten_pixels(features).data_ptr() == features.data_ptr()  # a view


@pytest.mark.parametrize("activation", ["tanh", "relu", "softsign"])
def test_the_mlp_starts_orthogonal(activation):
    net = MLP(4, (8, 16), activation)
    weight = net.layers[2].weight
    torch.testing.assert_close(weight.T @ weight, 2.0 * torch.eye(8))
    assert not net.layers[2].bias.any()
    assert net(torch.randn(5, 4)).shape == (5, net.num_features) == (5, 16)
    assert math.isclose(net.layers[0].weight.detach().norm().item() ** 2, 2.0 * 4, rel_tol=1e-5)


def test_the_first_layer_computes_in_the_precision_of_its_input():
    net, vectors = MLP(4, (8,), "relu"), torch.randn(5, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        precise, rounded = net(vectors), net(vectors.bfloat16())
    torch.testing.assert_close(precise, net(vectors), rtol=1e-6, atol=1e-6)
    assert rounded.dtype == torch.bfloat16  # features of frames, say: what is rounded already costs no precise product


def test_an_mlp_without_layers_passes_its_input():
    net, vectors = MLP(4, (), "relu"), torch.randn(5, 4)
    assert torch.equal(net(vectors), vectors)
    assert net.num_features == 4


@pytest.mark.parametrize(
    ("torso", "convolutions", "units"),
    [
        ("nature_cnn", (32 * 4 * 64 + 32) + (64 * 32 * 16 + 64) + (64 * 64 * 9 + 64), (64 * 7 * 7 + 1) * 512),
        ("conv", (8 * 4 * 25 + 8) + (6 * 8 * 9 + 6), (6 * 13 * 13 + 1) * 10),
    ],
)
def test_other_nets_have_their_sizes(torso, convolutions, units):
    config = NetworkConfig(torso=torso, filters="(8,5,3), [6,3,2]", features=10)
    encoder = ObservationEncoder({"pixels": SCREEN}, config)
    assert num_parameters(encoder) == convolutions + units
    assert encoder({"pixels": frames(2, 4, 84, 84)}).shape == (2, 512 if torso == "nature_cnn" else 10)


def test_filters_without_units_are_bare_convolutions():
    encoder = ObservationEncoder({"pixels": SCREEN}, NetworkConfig(torso="conv", filters="(8,84,1)", features=0))
    assert encoder.num_features == 8
    assert set(dict(encoder.named_parameters())) == {"torsos.0.layers.0.weight", "torsos.0.layers.0.bias"}


def test_auto_takes_the_net_of_a_pictures_size_and_bools_count_one():
    cells = FramesSpec((10, 10, 4), high=1)
    encoder = ObservationEncoder({"cells": cells}, NetworkConfig())
    assert num_parameters(encoder) == (16 * 4 * 9 + 16) + (16 * 8 * 8 + 1) * 128
    (net,) = encoder.torsos
    seen = torch.randint(0, 2, (3, 4, 10, 10), dtype=torch.uint8)
    expected = F.conv2d(seen.float(), net.conv1.weight, net.conv1.bias)
    torch.testing.assert_close(net.conv1(seen), expected)
    (net,) = ObservationEncoder({"pixels": SCREEN}, NetworkConfig()).torsos
    assert set(dict(net.named_parameters())) == {  # as in checkpoints of earlier versions
        f"{name}.{kind}" for name in ("conv1", "conv2", "linear") for kind in ("weight", "bias")
    }


@pytest.mark.parametrize(
    "text", ["", "8", "(8,4)", "(8,4,0)", "(8,4,2.0)", "(8,4,2),x", "((8,4,2)", "'abc'", "(9999,1,1)"]
)
def test_filters_that_are_none_are_one_line(text):
    (problem,) = find_problems(NetworkConfig(filters=text))
    assert (problem.key, problem.wrong[:30]) == ("filters", "must be (number,size,stride) o")


def test_what_each_observation_counts_as_is_said():
    assert (
        describe_observations({"observation": VectorSpec((11,))}, NetworkConfig()) == "observation is 11 numbers (mlp)"
    )
    observations = {
        "cells": FramesSpec((10, 9, 4), high=1),
        "screen": SCREEN,
        "words": CategorySpec(30, (5,)),
        "speed": VectorSpec(()),
    }
    assert describe_observations(observations, NetworkConfig()) == (
        "cells is a picture of 10x9 with 4 channels (minatar_cnn), screen is a picture of 84x84 with 4 channels "
        "(atari_cnn), words is 5 values of 30, speed is 1 number"
    )
    assert "(nature_cnn)" in describe_observations({"screen": SCREEN}, NetworkConfig(torso="nature_cnn"))


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
def test_a_picture_of_other_numbers_is_seen_as_it_is(layout):
    is_last = layout == "channels_last"
    numbers = torch.randn((3, 10, 9, 4) if is_last else (3, 4, 10, 9))
    spec = VectorSpec(tuple(numbers.shape[1:]), layout=layout)
    torch.manual_seed(5)
    encoder = ObservationEncoder({"grid": spec}, NetworkConfig())
    (net,) = encoder.torsos
    turned = numbers.permute(0, 3, 1, 2) if is_last else numbers
    hidden = F.relu(F.conv2d(turned, net.conv1.weight, net.conv1.bias)).permute(0, 2, 3, 1).flatten(1)
    expected = F.relu(F.linear(hidden, net.linear.weight, net.linear.bias))
    torch.testing.assert_close(encoder({"grid": numbers}), expected)
    said = "grid is a picture of 10x9 with 4 channels, its numbers as they are (minatar_cnn)"
    assert describe_observations({"grid": spec}, NetworkConfig()) == said


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
def test_the_channels_of_several_pictures_of_numbers_stand_behind_each_other(layout):
    numbers = torch.randn(3, 2, 4, 10, 9)
    given = numbers if layout == "channels_first" else numbers.movedim(2, -1)
    spec = VectorSpec(tuple(given.shape[1:]), layout=layout)
    encoder = ObservationEncoder({"grid": spec}, NetworkConfig())
    (net,) = encoder.torsos
    torch.testing.assert_close(encoder({"grid": given}), net(numbers.reshape(3, 8, 10, 9)))
    assert describe_observations({"grid": spec}, NetworkConfig()).startswith(
        "grid is a picture of 10x9 with 8 channels"
    )


def test_a_matrix_of_numbers_is_a_picture_where_a_torso_for_pictures_is_named():
    matrix = {"map": VectorSpec((12, 10)), "speed": VectorSpec(())}
    assert not ObservationEncoder(matrix, NetworkConfig()).torsos
    config = NetworkConfig(torso="conv", filters="(2,3,1)", features=0)
    encoder = ObservationEncoder(matrix, config)
    (net,) = encoder.torsos
    seen = {"map": torch.randn(3, 12, 10), "speed": torch.randn(3)}
    (conv,) = [module for module in net.modules() if isinstance(module, PixelConv2d)]
    hidden = F.relu(F.conv2d(seen["map"].unsqueeze(1), conv.weight, conv.bias)).permute(0, 2, 3, 1).flatten(1)
    torch.testing.assert_close(encoder(seen), torch.cat([hidden, seen["speed"].unsqueeze(1)], 1))
    beside = {**matrix, "screen": SCREEN}  # as before there were pictures of numbers: runs of that time go on
    assert describe_observations(beside, config).startswith("map is 120 numbers, speed is 1 number, screen is a pict")
    small = {"map": VectorSpec((4, 10))}
    with pytest.raises(ValueError, match="conv sees frames only, and there are none"):
        ObservationEncoder(small, config)


def test_pictures_of_large_numbers_are_not_rounded():
    conv = PixelConv2d(1, 2, 3, high=1)
    values = torch.stack([torch.full((1, 5, 5), value) for value in (1000.0, 1002.0)])  # one number in bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = conv(values)
        assert conv(frames(1, 1, 5, 5)).dtype == torch.bfloat16
    torch.testing.assert_close(features, F.conv2d(values, conv.weight, conv.bias))
