"""Pixel control in the loss: its masks, and who cannot have it."""

import dataclasses

import pytest
import torch
from random_batches import ACTIONS, make_batch

from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.pixel_control import PixelControl
from laser.algorithms.refer import ReferConfig
from laser.networks.actor_critic import ActorCritic
from laser.networks.config import NetworkConfig
from laser.specs import ACTION_MASK, EnvironmentSpec, FramesSpec, MaskSpec, VectorSpec

PICTURE = FramesSpec((36, 24, 3), stack=2)
ENVIRONMENT = EnvironmentSpec("probe", {"observation": PICTURE}, ACTIONS["discrete"])
ONLY = {"entropy_cost": 0.0, "baseline_cost": 0.0, "pixel_control_cost": 0.5}


@dataclasses.dataclass(frozen=True)
class OwnNetwork(NetworkConfig):
    def make(self, environment):
        return ActorCritic(environment, self)


def make():
    batch = make_batch(ACTIONS["discrete"], num_rows=6, num_columns=3)
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (7, 3, 6, 36, 24), generator=generator, dtype=torch.uint8)
    valid = batch.valid.clone()
    valid[2, 1] = False
    return dataclasses.replace(batch, observations={"observation": frames}, valid=valid, rewards=0 * batch.rewards)


def evaluate(config, batch, core="none"):
    algorithm = config.build(ENVIRONMENT, NetworkConfig(core=core, core_size=16))
    networks = algorithm.seeded_networks(0)
    state = {name: torch.zeros(3, *array.shape) for name, array in algorithm.core_state.items()}
    output = algorithm.loss(networks, {}, dataclasses.replace(batch, core_state=state), {}, None)
    output.loss.backward()
    return output, networks


@pytest.mark.parametrize("core", ["none", "preco"])
def test_it_adds_its_weighted_loss_and_shapes_the_torso(core):
    batch = make()
    with_it, networks = evaluate(ImpalaConfig(**ONLY), batch, core)
    without, _ = evaluate(ImpalaConfig(**{**ONLY, "pixel_control_cost": 0.0}), batch, core)
    added = 0.5 * with_it.metrics["pixel_control_loss"]
    assert added > 0
    torch.testing.assert_close(with_it.loss.detach(), without.loss.detach() + added)
    assert networks.pixel_control_head(torch.zeros(1, networks.num_features)).shape == (1, 3, 9, 6)
    assert networks.encoder.torsos[0].conv1.weight.grad.any()


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_refer_weighs_it_like_the_rest(beta):
    config = ImpalaConfig(**ONLY)
    plain, _ = evaluate(config, make())
    algorithm = dataclasses.replace(config, refer=ReferConfig(c=1000.0)).build(ENVIRONMENT, NetworkConfig())
    networks = algorithm.seeded_networks(0)
    networks.refer.beta.fill_(beta)
    output = algorithm.loss(networks, {}, make(), {}, None)
    pull = output.metrics["kl_from_behaviour"] * make().valid.sum()
    torch.testing.assert_close(output.loss.detach(), beta * plain.loss.detach() + (1 - beta) * pull)


def test_a_rejected_step_teaches_nothing():
    config = LaserConfig(**ONLY, trust_region_threshold=0.0)
    output, networks = evaluate(config, make())
    assert output.loss.item() == 0.0
    assert not networks.pixel_control_head.linear.weight.grad.any()


def test_what_a_picture_shows_after_an_episodes_end_is_not_seen_before_it():
    """Row 2 of column 1 is an episode's final observation: rows 3 and later are another episode's."""
    batch = make()
    later = batch.observations["observation"].clone()
    later[3:, 1] = 255 - later[3:, 1]
    only_before = torch.zeros_like(batch.valid)
    only_before[:2, 1] = True
    gradients = []
    for frames in (batch.observations["observation"], later):
        each = dataclasses.replace(batch, observations={"observation": frames}, valid=only_before)
        _, networks = evaluate(ImpalaConfig(**ONLY), each)
        gradients.append(networks.pixel_control_head.advantage.weight.grad)
    assert torch.equal(*gradients)
    assert gradients[0].any()


@pytest.mark.parametrize(
    ("environment", "options", "message"),
    [
        (EnvironmentSpec("probe", {"x": VectorSpec((3,))}, ACTIONS["discrete"]), {}, "needs one picture"),
        (EnvironmentSpec("probe", {"a": PICTURE, "b": PICTURE}, ACTIONS["discrete"]), {}, "has 2 and Discrete"),
        (EnvironmentSpec("probe", {"a": PICTURE}, ACTIONS["continuous"]), {}, "has 1 and Box actions"),
        (ENVIRONMENT, {"pixel_control_cell": 25}, r"at most the picture's edge \(24 pixels\), got 25"),
    ],
)
def test_who_cannot_have_it_is_told(environment, options, message):
    with pytest.raises(ValueError, match=message):
        ImpalaConfig(**ONLY, **options).build(environment, NetworkConfig())


@pytest.mark.parametrize("options", [{"popart": True}, {"pixel_control_cost": 0.1}])
def test_networks_of_your_own_keep_their_heads(options):
    with pytest.raises(ValueError, match="on LASER's own networks, got OwnNetwork"):
        ImpalaConfig(**options).build(ENVIRONMENT, OwnNetwork())


@pytest.mark.slow
def test_a_recurrent_agent_with_everything_compiles_whole():
    config = LaserConfig(pixel_control_cost=0.5, popart=True, reward_transform="asymmetric")
    algorithm = config.build(ENVIRONMENT, NetworkConfig(core="preco", core_size=16))
    networks = algorithm.seeded_networks(0)
    state = {name: torch.zeros(3, *array.shape) for name, array in algorithm.core_state.items()}
    batch = dataclasses.replace(make(), core_state=state)
    outputs, gradients = [], []
    torch._dynamo.reset()  # what earlier tests compiled counts towards its limit
    for loss in (algorithm.loss, torch.compile(algorithm.loss, fullgraph=True, backend="aot_eager")):
        networks.zero_grad()
        outputs.append(loss(networks, {}, batch, {}, None))
        outputs[-1].loss.backward()
        gradients.append(torch.cat([x.grad.flatten() for x in networks.parameters()]))
    torch.testing.assert_close(outputs[1].loss, outputs[0].loss, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(outputs[1].core_state, outputs[0].core_state, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outputs[1].state_updates, outputs[0].state_updates, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("channels", "matters"), [(slice(0, 3), False), (slice(3, 6), True)])
def test_only_the_newest_frame_of_a_stack_is_looked_at(channels, matters):
    batch, task = make(), PixelControl(ENVIRONMENT, cell=4, discount=0.9)
    other = batch.observations["observation"].clone()
    other[2:, :, channels] //= 2
    values = torch.randn(7, 3, 3, 9, 6, generator=torch.Generator().manual_seed(0))
    before, after = (
        task.loss(values, dataclasses.replace(batch, observations={"observation": frames}), batch.valid, batch.valid)
        for frames in (batch.observations["observation"], other)
    )
    assert (before != after) == matters


def test_its_loss_is_the_literal_one_across_terminations_and_rejected_rows():
    """Targets as a loop in float64, of a batch whose own discount is another than the task's."""
    generator = torch.Generator().manual_seed(3)
    control = PixelControl(ENVIRONMENT, 4, 0.7)
    batch = make()
    assert (batch.discounts[batch.valid] == 0.0).sum() >= 1
    batch = dataclasses.replace(batch, discounts=torch.where(batch.discounts == 0.0, 0.0, 1.0))
    values = torch.randn(7, 3, 3, 9, 6, generator=generator)
    used = batch.valid & (torch.rand(6, 3, generator=generator) < 0.8)
    weights = torch.rand(6, 3, generator=generator) * used
    pictures = batch.observations["observation"][:, :, -3:].double() / 255.0
    expected = 0.0
    for b in range(3):
        follows = None  # the target of the row after, if that one is learned from
        for t in reversed(range(6)):
            change = (pictures[t + 1, b] - pictures[t, b]).abs()
            target = change.reshape(3, 9, 4, 6, 4).mean((0, 2, 4))
            if batch.discounts[t, b] != 0.0:
                target = target + 0.7 * (values[t + 1, b].double().amax(0) if follows is None else follows)
            follows = target if used[t, b] else None
            errors = target - values[t, b, batch.actions[t, b]].double()
            expected += 0.5 * weights[t, b].item() * errors.square().sum().item()
    assert control.loss(values, batch, used, weights).item() == pytest.approx(expected, rel=1e-5)


def test_a_cell_may_be_as_large_as_the_picture():
    head = PixelControl(ENVIRONMENT, 24, 0.9).make_head(5)
    assert head(torch.zeros(1, 5)).shape == (1, 3, 1, 1)


def test_what_is_forbidden_changes_no_target_and_no_mean():
    batch = make()
    mask = torch.rand(7, 3, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[:-1].scatter_(-1, batch.actions.unsqueeze(-1), True)
    mask[-1, :, 0] = True
    masks = {ACTION_MASK: mask}
    masked = dataclasses.replace(batch, observations={**batch.observations, **masks})
    environment = dataclasses.replace(
        ENVIRONMENT, observations={**ENVIRONMENT.observations, ACTION_MASK: MaskSpec((3,))}
    )
    algorithm = ImpalaConfig(**ONLY).build(environment, NetworkConfig())

    def pixel_loss(disturbance):
        networks = algorithm.seeded_networks(0)
        layer = networks.pixel_control_head.advantage
        layer.register_forward_hook(
            lambda _, inputs, found: found + disturbance * (~mask.flatten(0, 1))[:, :, None, None]
        )
        return algorithm.loss(networks, {}, masked, {}, None).metrics["pixel_control_loss"]

    torch.testing.assert_close(pixel_loss(5.0), pixel_loss(0.0))
    assert pixel_loss(0.0) > 0
