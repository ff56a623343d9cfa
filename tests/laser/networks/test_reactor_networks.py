"""Reactor's networks: sizes, the exploration floor, what reaches the torso, memories that are apart."""

import math

import numpy as np
import pytest
import torch

from laser.networks.config import NetworkConfig
from laser.networks.crelu_cnn import CReLUCNN
from laser.networks.mlp import MLP, ConcatenatedReLU
from laser.networks.reactor import DuelingHead, ExploringHead, ReactorNetworks
from laser.specs import DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec

ENVIRONMENT = EnvironmentSpec("probe", {"observation": VectorSpec((4,))}, DiscreteActions(3))
ROWS = (5, 2)


def make(core="none", exploration=0.1, guesses=True):
    torch.manual_seed(0)
    network = NetworkConfig(hidden_sizes=(8,), core=core, core_size=6)
    return ReactorNetworks(ENVIRONMENT, network, 7, exploration, guesses).double()


def inputs(core="none", rows=ROWS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    state = {}
    if core != "none":
        names = [f"{head}_{part}" for head in ("policy", "critic", "behaviour") for part in ("hidden", "cell")]
        state = {name: torch.randn(rows[1], 6, generator=generator, dtype=torch.float64) for name in names}
    return (
        {"observation": torch.randn(*rows, 4, generator=generator, dtype=torch.float64)},
        torch.randint(0, 3, rows, generator=generator),
        torch.randn(rows, generator=generator, dtype=torch.float64),
        torch.rand(rows, generator=generator) < 0.3,
        state,
    )


def test_concatenated_rectifiers_keep_both_signs():
    x = torch.tensor([[-1.0, 2.0], [3.0, -4.0]])
    assert ConcatenatedReLU()(x).tolist() == [[0, 2, 1, 0], [3, 0, 0, 4]]
    assert ConcatenatedReLU(0)(x).tolist() == [[0, 2], [3, 0], [1, 0], [0, 4]]
    mlp = MLP(5, (4, 3), "crelu")
    assert mlp.num_features == 6
    assert [layer.weight.shape for layer in mlp.layers if isinstance(layer, torch.nn.Linear)] == [(4, 5), (3, 8)]
    assert mlp(torch.randn(2, 5)).shape == (2, 6)


def test_the_atari_net_has_the_sizes_of_table_1():
    net = CReLUCNN(FramesSpec((84, 84), 1))
    frames = torch.zeros(2, 1, 84, 84, dtype=torch.uint8)
    shapes = []
    for layer in net.layers:
        frames = layer(frames)
        shapes.append(tuple(frames.shape[1:]))
    assert shapes == [(16, 20, 20), (32, 20, 20), (32, 9, 9), (64, 9, 9), (32, 7, 7), (64, 7, 7)]
    assert net.units.layers[0].weight.shape == (128, 7 * 7 * 64)
    assert net.num_features == 256
    assert net(torch.zeros(2, 1, 84, 84, dtype=torch.uint8)).shape == (2, 256)
    assert CReLUCNN(FramesSpec((36, 36), 1))(torch.zeros(1, 1, 36, 36, dtype=torch.uint8)).shape == (1, 256)
    with pytest.raises(ValueError, match="crelu_cnn needs frames of at least 36x36 pixels, got 35x84"):
        CReLUCNN(FramesSpec((35, 84), 1))


@pytest.mark.parametrize("exploration", [0.0, 0.1, 0.5])
def test_the_floor_is_a_mixture_with_the_uniform_policy(exploration):
    torch.manual_seed(1)
    head = ExploringHead(4, 3, 8, exploration).double()
    with torch.no_grad():
        head.logits.linear.weight.mul_(2000.0)  # some actions all but excluded
    features = torch.randn(50, 4, dtype=torch.float64)
    with torch.no_grad():
        probs = head(features)["logits"].exp().numpy()
        plain = head.logits(head.hidden(features))["logits"].softmax(-1).numpy()
    np.testing.assert_allclose(probs, (1 - exploration) * plain + exploration / 3, atol=1e-12)
    assert probs.min() >= exploration / 3 - 1e-12
    assert plain.min() < 1e-3, "the interesting branch was not reached"
    np.testing.assert_allclose(probs.sum(-1), 1.0, atol=1e-12)


def test_the_floor_is_differentiated_through():
    head = ExploringHead(2, 2, 4, 0.2).double()
    features = torch.randn(1, 2, dtype=torch.float64)
    head(features)["logits"].exp()[0, 0].backward()
    plain = head.logits(head.hidden(features))["logits"].softmax(-1)[0, 0].item()
    assert head.logits.linear.bias.grad[0].item() == pytest.approx(0.8 * plain * (1 - plain))


def test_dueling_values_are_the_states_plus_centred_advantages():
    head, features = DuelingHead(4, 3, 8), torch.randn(6, 4)
    hidden = head.hidden(features)
    value_units, advantage_units = (torch.cat([part, -part], -1).relu() for part in (hidden[:, :8], hidden[:, 8:]))
    values, advantages = head.value(value_units), head.advantage(advantage_units)
    torch.testing.assert_close(head(features), values + advantages - advantages.mean(-1, keepdim=True))
    torch.testing.assert_close(head(features).mean(-1), values.squeeze(-1))


@pytest.mark.parametrize("core", ["none", "lstm", "lstm_features", "preco"])
def test_only_the_critic_reaches_the_torso(core):
    networks = make(core)
    names = [name for name, _ in networks.named_parameters()]
    output = networks(*inputs(core))
    reached = {}
    for what, answer in (
        ("policy", output.policy["logits"]),
        ("critic", output.q_values),
        ("behaviour", output.behaviour["logits"]),
    ):
        gradients = torch.autograd.grad(answer.square().sum(), networks.parameters(), None, True, allow_unused=True)
        reached[what] = {
            name.split(".")[1] if name.startswith(("cores", "heads")) else name.split(".")[0]
            for name, gradient in zip(names, gradients, strict=True)
            if gradient is not None and gradient.abs().sum() > 0
        }
    assert reached == {"policy": {"policy"}, "critic": {"critic", "encoder"}, "behaviour": {"behaviour"}}


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_values_are_the_policys_and_action_values_can_be_had_alone(core):
    networks, given = make(core), inputs(core)
    output = networks(*given)
    torch.testing.assert_close(output.values, (output.policy["logits"].exp() * output.q_values).sum(-1))
    assert torch.equal(networks.q_values(*given), output.q_values)
    assert set(output.core_states) == set(given[-1])


def test_each_head_has_a_memory_of_its_own():
    networks, given = make("lstm"), inputs("lstm")
    output = networks(*given)
    for head, answer in (("policy", "policy"), ("critic", "q_values"), ("behaviour", "behaviour")):
        state = {name: value + (name.startswith(head)) for name, value in given[-1].items()}
        given[3][0] = False  # so that the state before row 0 counts
        before, after = networks(*given), networks(*given[:-1], state)
        changed = set()
        for name in ("policy", "q_values", "behaviour"):
            old, new = (getattr(each, name) for each in (before, after))
            old, new = (each["logits"] if isinstance(each, dict) else each for each in (old, new))
            if not torch.equal(old, new):
                changed.add(name)
        assert changed == {answer}
    assert output.core_states["policy_hidden"].shape == (*ROWS, 6)


def test_without_a_guess_there_is_no_behaviour():
    networks = make("lstm", guesses=False)
    assert set(networks.heads) == set(networks.cores) == {"policy", "critic"}
    given = inputs("lstm")
    assert networks(*given).behaviour == {}
    assert math.isfinite(networks(*given).values.sum().item())
