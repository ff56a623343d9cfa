import pytest
import torch

from laser.algorithms.ddpg import Critic
from laser.algorithms.twin_critics import TwinCritics
from laser.networks.actor_critic import ActorCritic
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import MIN_STD
from laser.specs import (
    CategorySpec,
    ContinuousActions,
    DiscreteActions,
    EnvironmentSpec,
    FramesSpec,
    MultiDiscreteActions,
    VectorSpec,
)

NUM_ROWS, NUM_COLUMNS = 5, 3
VECTORS = {"observation": VectorSpec((4,))}
FRAMES = {"observation": FramesSpec((36, 36), stack=2)}
MIXED = {
    "x": VectorSpec((2, 3)),
    "scalar": VectorSpec(()),
    "which": CategorySpec(5),
    "words": CategorySpec(7, (3,)),
    "camera.left": FRAMES["observation"],
}


def make(observations, actions=None, **config):
    torch.manual_seed(0)
    actions = actions or DiscreteActions(3)
    return ActorCritic(EnvironmentSpec("probe", observations, actions), NetworkConfig(**config))


def sample(observations, rows=(NUM_ROWS, NUM_COLUMNS)):
    torch.manual_seed(1)
    values = {}
    for name, spec in observations.items():
        if isinstance(spec, FramesSpec):
            values[name] = torch.randint(0, 256, (*rows, spec.channels, *spec.frame_shape[:2]), dtype=torch.uint8)
        elif isinstance(spec, CategorySpec):
            values[name] = torch.randint(0, spec.num_values, (*rows, *spec.shape), dtype=torch.int32)
        else:
            values[name] = torch.randn(*rows, *spec.shape)
    return values


def run(network, values):
    rows = next(iter(values.values())).shape[:2]
    return network(
        values, torch.zeros(rows, dtype=torch.int64), torch.zeros(rows), torch.zeros(rows, dtype=torch.bool), {}
    )


@pytest.mark.parametrize(
    ("actions", "sizes"),
    [
        (DiscreteActions(3), {"logits": 3}),
        (MultiDiscreteActions((2, 4)), {"logits": 6}),
        (ContinuousActions((0.0, 0.0), (1.0, 1.0)), {"mean": 2, "std": 2}),
    ],
)
@pytest.mark.parametrize("observations", [VECTORS, FRAMES, MIXED], ids=["vectors", "frames", "mixed"])
@pytest.mark.parametrize("separate_critic", [False, True])
def test_one_forward_gives_all_rows(actions, sizes, observations, separate_critic):
    network = make(observations, actions, separate_critic=separate_critic)
    output = run(network, sample(observations))
    assert {name: value.shape for name, value in output.policy.items()} == {
        name: (NUM_ROWS, NUM_COLUMNS, size) for name, size in sizes.items()
    }
    assert output.values.shape == (NUM_ROWS, NUM_COLUMNS)
    assert output.core_states == {}
    (output.values.sum() + sum(value.sum() for value in output.policy.values())).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("observations", [VECTORS, FRAMES, MIXED], ids=["vectors", "frames", "mixed"])
def test_rows_do_not_see_each_other(observations):
    network, values = make(observations).double(), sample(observations)
    values = {name: value.double() if value.is_floating_point() else value for name, value in values.items()}
    together = run(network, values)
    alone = run(network, {name: value[2:3, 1:2] for name, value in values.items()})
    torch.testing.assert_close(alone.values[0, 0], together.values[2, 1], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(alone.policy["logits"][0, 0], together.policy["logits"][2, 1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", list(MIXED))
def test_every_observation_matters(name):
    network, values = make(MIXED), sample(MIXED)
    other = dict(values)
    other[name] = (values[name] + 1) % 5 if name == "which" else values[name].flip(-1) + (name == "scalar")
    assert not torch.allclose(run(network, values).values, run(network, other).values)


def test_policies_start_near_uniform_and_gaussians_at_their_std():
    logits = run(make(VECTORS), sample(VECTORS)).policy["logits"]
    assert logits.softmax(-1).sub(1 / 3).abs().max() < 0.02
    continuous = ContinuousActions((0.0,), (1.0,))
    policy = run(make(VECTORS, continuous, initial_std=0.6), sample(VECTORS)).policy
    torch.testing.assert_close(policy["std"], torch.full_like(policy["std"], 0.6))
    network = make(VECTORS, continuous)
    torch.nn.init.constant_(network.policy_head.log_std, -100.0)
    assert run(network, sample(VECTORS)).policy["std"].min() >= MIN_STD


def test_a_separate_critic_shares_nothing():
    network = make(VECTORS, separate_critic=True)
    run(network, sample(VECTORS)).values.sum().backward()
    assert all(parameter.grad is None for parameter in network.encoder.parameters())
    assert all(parameter.grad is not None for parameter in network.critic_encoder.parameters())


@pytest.mark.parametrize("observations", [VECTORS, FRAMES, MIXED], ids=["vectors", "frames", "mixed"])
def test_autocast_leaves_the_heads_in_float32(observations):
    network, values = make(observations).to(memory_format=torch.channels_last), sample(observations)
    expected = run(network, values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = run(network, values)
    assert output.values.dtype == output.policy["logits"].dtype == torch.float32
    torch.testing.assert_close(output.values, expected.values, atol=0.05, rtol=0.05)


def test_vectors_beside_frames_are_not_rounded_under_autocast():
    encoder, values = ObservationEncoder(MIXED, NetworkConfig()), sample(MIXED, (NUM_ROWS,))
    values["scalar"] = torch.ones(NUM_ROWS)
    near = values | {"scalar": torch.full((NUM_ROWS,), 1.001)}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        difference = encoder(near) - encoder(values)
    assert difference.max().item() == pytest.approx(0.001, rel=1e-3)


@pytest.mark.parametrize("kind", [TwinCritics, Critic])
def test_nor_are_actions(kind):
    actions = ContinuousActions((-1.0, -1.0), (1.0, 1.0))
    critic = kind(EnvironmentSpec("x", FRAMES, actions), NetworkConfig(hidden_sizes=(8,)), 2)
    for name, parameter in critic.named_parameters():
        torch.nn.init.constant_(parameter, 0.0 if name.startswith("encoder") else 0.5)
    seen, taken = sample(FRAMES, (NUM_ROWS,)), torch.full((NUM_ROWS, 2), 0.5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before, after = critic(seen, taken), critic(seen, taken + 0.001)
    assert (before != after).all()


@pytest.mark.slow
@pytest.mark.parametrize("observations", [VECTORS, FRAMES, MIXED], ids=["vectors", "frames", "mixed"])
def test_it_compiles_whole_under_autocast(observations):
    network, values = make(observations), sample(observations)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(run(compiled, values).values, run(network, values).values, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(
    ("observations", "torso", "message"),
    [(FRAMES, "mlp", "mlp cannot see frames"), (VECTORS, "atari_cnn", "sees frames only")],
)
def test_a_torso_that_cannot_see_is_refused(observations, torso, message):
    with pytest.raises(ValueError, match=message):
        make(observations, torso=torso)
