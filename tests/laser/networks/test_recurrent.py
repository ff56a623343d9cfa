"""Recurrent networks: against a literal walk, across episodes, and in one step or many."""

import numpy as np
import pytest
import torch
from literal_lstm import literal_cell

from laser.config import find_problems
from laser.networks.actor_critic import ActorCritic
from laser.networks.config import NetworkConfig
from laser.networks.recurrent import FeaturesLSTMCore, LSTMCore, PreCoCore
from laser.specs import (
    ContinuousActions,
    DiscreteActions,
    EnvironmentSpec,
    FramesSpec,
    MultiDiscreteActions,
    VectorSpec,
)

NUM_ROWS, NUM_COLUMNS, SIZE, NUM_FEATURES = 7, 3, 5, 4
CORES = {"lstm": LSTMCore, "lstm_features": FeaturesLSTMCore, "preco": PreCoCore}
ACTIONS = {
    "discrete": DiscreteActions(3),
    "multi_discrete": MultiDiscreteActions((2, 3)),
    "continuous": ContinuousActions((0.0, 0.0), (1.0, 1.0)),
}
VECTORS, FRAMES = {"observation": VectorSpec((NUM_FEATURES,))}, {"observation": FramesSpec((36, 36), stack=2)}
TORSOS = {"mlp": VECTORS, "atari_cnn": FRAMES, "impala_resnet": FRAMES}


def draw_actions(actions, generator, rows=(NUM_ROWS, NUM_COLUMNS)):
    match actions:
        case DiscreteActions():
            return torch.randint(actions.num_actions, rows, generator=generator)
        case MultiDiscreteActions():
            return torch.stack([torch.randint(n, rows, generator=generator) for n in actions.num_actions], -1)
        case ContinuousActions():
            return torch.randn(*rows, len(actions.low), generator=generator)


def make_rows(actions=ACTIONS["discrete"], observations=VECTORS, dtype=torch.float64):
    """Inputs of `ActorCritic.forward`, with episodes that begin at rows 0, 3 and in the last row."""
    generator = torch.Generator().manual_seed(0)
    first = torch.zeros(NUM_ROWS, NUM_COLUMNS, dtype=torch.bool)
    first[0, 0] = first[3, 1] = first[NUM_ROWS - 1, 2] = True
    spec = observations["observation"]
    if isinstance(spec, FramesSpec):
        shape = (NUM_ROWS, NUM_COLUMNS, spec.channels, *spec.frame_shape)
        seen = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    else:
        seen = torch.randn(NUM_ROWS, NUM_COLUMNS, *spec.shape, generator=generator, dtype=dtype)
    rewards = 2.0 * torch.randn(NUM_ROWS, NUM_COLUMNS, generator=generator, dtype=dtype)
    state = {name: torch.randn(NUM_COLUMNS, SIZE, generator=generator, dtype=dtype) for name in ("hidden", "cell")}
    last_actions = draw_actions(actions, generator)
    if last_actions.is_floating_point():
        last_actions = last_actions.to(dtype)
    return [{"observation": seen}, last_actions, rewards, first, state]


def make_network(core, actions=ACTIONS["discrete"], observations=VECTORS, **config):
    torch.manual_seed(0)
    network = ActorCritic(
        EnvironmentSpec("probe", observations, actions), NetworkConfig(core=core, core_size=SIZE, **config)
    )
    with torch.no_grad():  # policies start near uniform
        next(network.policy_head.parameters()).mul_(100.0)
    return network


def part(rows, time, columns=slice(None), state=None):
    observations, *sequences, initial = rows
    initial = state if state is not None else {name: value[columns] for name, value in initial.items()}
    return [
        {name: value[time, columns] for name, value in observations.items()},
        *(x[time, columns] for x in sequences),
        initial,
    ]


def past_features(actions, last_action, last_reward, is_first):
    """One-hot last action and clipped last reward of one row, the slow way; the reward comes first."""
    match actions:
        case DiscreteActions():
            parts = [float(last_action == n) for n in range(actions.num_actions)]
        case MultiDiscreteActions():
            parts = [
                float(x == n) for x, size in zip(last_action, actions.num_actions, strict=True) for n in range(size)
            ]
        case ContinuousActions():
            parts = last_action.tolist()
    return np.zeros(len(parts) + 1) if is_first else np.array([min(1.0, max(-1.0, last_reward.item())), *parts])


def literal_core(core, actions, features, last_actions, last_rewards, first, state):
    """(h, c) after each row for every environment, cell by cell."""
    weights = {name: value.detach().numpy() for name, value in core.state_dict().items()}

    def step(name, inputs, h, c):
        gates = weights[f"{name}.input_weight"] @ inputs + weights[f"{name}.bias"]
        return literal_cell(gates, weights[f"{name}.state_weight"], h, c)

    hiddens = np.zeros((NUM_ROWS, NUM_COLUMNS, SIZE))
    cells = np.zeros_like(hiddens)
    for b in range(NUM_COLUMNS):
        h, c = state["hidden"][b].numpy(), state["cell"][b].numpy()
        for t in range(NUM_ROWS):
            past = past_features(actions, last_actions[t, b], last_rewards[t, b], first[t, b])
            if first[t, b]:
                h, c = np.zeros(SIZE), np.zeros(SIZE)
            if isinstance(core, LSTMCore):
                h, c = step("cell", np.concatenate([features[t, b], past]), h, c)
            elif isinstance(core, FeaturesLSTMCore):
                h, c = step("cell", features[t, b], h, c)
            else:
                weight, bias = weights["embedding.layers.0.weight"], weights["embedding.layers.0.bias"]
                h, c = step("predictor", np.maximum(weight @ past + bias, 0.0), h, c)
                h, c = step("corrector", features[t, b], h, c)
            hiddens[t, b], cells[t, b] = h, c
    return hiddens, cells


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_a_core_is_its_literal_walk(core, actions):
    torch.manual_seed(0)
    module = CORES[core](NUM_FEATURES, actions, SIZE).double()
    observations, *rest = make_rows(actions)
    features = observations["observation"]
    states = module(features, *rest)
    hiddens, cells = literal_core(module, actions, features.numpy(), *rest)
    np.testing.assert_allclose(states["hidden"].detach().numpy(), hiddens, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(states["cell"].detach().numpy(), cells, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("torso", TORSOS)
def test_many_rows_at_once_are_many_single_steps(core, torso):
    network = make_network(core, observations=TORSOS[torso], torso=torso).double()
    rows = make_rows(observations=TORSOS[torso])
    together, state = network(*rows), rows[-1]
    for t in range(NUM_ROWS):
        one = network(*part(rows, slice(t, t + 1), state=state))
        state = {name: value[-1] for name, value in one.core_states.items()}
        torch.testing.assert_close(one.values[0], together.values[t], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(one.policy["logits"][0], together.policy["logits"][t], rtol=1e-9, atol=1e-11)
        for name, value in state.items():
            torch.testing.assert_close(value, together.core_states[name][t], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("core", CORES)
def test_two_episodes_in_one_unroll_are_each_by_itself(core):
    network, rows = make_network(core).double(), make_rows()
    together = network(*rows)
    column = slice(1, 2)  # its second episode begins at row 3
    before = network(*part(rows, slice(0, 3), column))
    junk = {name: torch.full((1, SIZE), 1e3, dtype=torch.float64) for name in rows[-1]}
    after = network(*part(rows, slice(3, None), column, state=junk))
    alone = torch.cat([before.values, after.values])
    torch.testing.assert_close(alone, together.values[:, column], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("core", CORES)
def test_what_an_episodes_first_row_is_told_of_the_past_does_not_matter(core):
    network, rows = make_network(core).double(), make_rows()
    observations, last_actions, last_rewards, first, state = rows
    told = network(
        observations, torch.where(first, 2, last_actions), torch.where(first, 1e9, last_rewards), first, state
    )
    assert torch.equal(told.values, network(*rows).values)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("which", ["state", "last_action", "last_reward", "early observation"])
def test_the_past_matters_otherwise(core, which):
    network, rows = make_network(core).double(), make_rows()
    changed = [dict(rows[0]), *(x.clone() for x in rows[1:4]), dict(rows[4])]
    if which == "state":
        changed[4] = {name: value + 1.0 for name, value in rows[4].items()}
    elif which == "early observation":
        changed[0]["observation"] = rows[0]["observation"].clone()
        changed[0]["observation"][1] += 1.0
    else:
        changed[1][1] = (rows[1][1] + 1) % 3 if which == "last_action" else rows[1][1]
        changed[2][1] = rows[2][1] if which == "last_action" else 0.123
    before, after = network(*rows).values[2], network(*changed).values[2]
    is_seen = core != "lstm_features" or which in ("state", "early observation")
    assert torch.allclose(before[2], after[2], rtol=1e-6) != is_seen


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("torso", TORSOS)
def test_gradients_reach_every_parameter_and_autocast_keeps_states_and_heads_in_float32(core, torso):
    network = make_network(core, observations=TORSOS[torso], torso=torso)
    rows = make_rows(observations=TORSOS[torso], dtype=torch.float32)
    expected = network(*rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = network(*rows)
    (output.values.sum() + output.policy["logits"].square().sum()).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())
    assert {value.dtype for value in output.core_states.values()} == {torch.float32}
    assert output.values.dtype == torch.float32
    torch.testing.assert_close(output.values, expected.values, atol=0.05, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_it_compiles_whole_with_its_gradient(core):
    network, rows = make_network(core), make_rows(dtype=torch.float32)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    gradients = []
    for each in (network, compiled):
        network.zero_grad()
        output = each(*rows)
        (output.values.sum() + output.policy["logits"].square().sum()).backward()
        gradients.append(torch.cat([x.grad.flatten() for x in network.parameters()]))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


def test_the_config_declares_the_state_and_refuses_a_critic_without_memory():
    assert NetworkConfig().core_state == {}
    declared = NetworkConfig(core="preco", core_size=SIZE).core_state
    assert {name: array.shape for name, array in declared.items()} == {"hidden": (SIZE,), "cell": (SIZE,)}
    (problem,) = find_problems(NetworkConfig(core="lstm", separate_critic=True))
    assert problem.key == "separate-critic"
