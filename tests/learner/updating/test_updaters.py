"""All updaters: target networks, parameter groups, passes over a batch, buffers from statistics, precision."""

import dataclasses

import pytest
import torch
from torch import nn

from laser import compilation
from laser.algorithms.base import Algorithm, AlgorithmConfig, LossOutput, ParameterGroup, Target
from laser.flat_parameters import FlatParameters
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.experience.collate import example_batch
from learner.updating.factory import make_updater
from learner.updating.optimizer import FlatOptimizer

SPEC = UnrollSpec(
    4, EnvironmentSpec("Test-v0", {"x": VectorSpec((1,))}, DiscreteActions(2)), {"logits": ArraySpec((2,))}
)


@dataclasses.dataclass(frozen=True)
class Config(AlgorithmConfig):
    optimizer: str = "adam"
    epochs: int = 1
    parts: int = 1

    @property
    def passes(self):
        return self.epochs, self.parts

    def build(self, environment, network):
        raise NotImplementedError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1, 3), nn.Linear(3, 1)
        self.register_buffer("size", torch.ones(()))

    def forward(self, x):
        return self.second(self.first(x / self.size).tanh()).squeeze(-1)


class Fit(Algorithm):
    behaviour = {"logits": ArraySpec((2,))}  # noqa: RUF012

    def __init__(self, config=None, **attributes):
        self.config = config or Config()
        self.seen = []
        for name, value in attributes.items():
            setattr(self, name, value)

    def make_networks(self):
        return Net()

    def act(self, *arguments, **options):
        raise NotImplementedError

    def observe(self, networks, statistics, num_updates):
        return {"size": torch.tensor(float(statistics["size"]))}

    def prepare(self, networks, batch):
        return dataclasses.replace(batch, columns={"prepared": batch.rewards + 1.0})

    def loss(self, networks, targets, batch, schedule, generator):
        self.seen.append((batch, {name: [v.clone() for v in target.parameters()] for name, target in targets.items()}))
        errors = networks(batch.observations["x"])[:-1] - 3.0
        return LossOutput(errors.square().mean(), {"error": errors.detach().mean()})


def make_eager(algorithm):
    torch.manual_seed(0)
    return make_updater(algorithm, algorithm.make_networks(), SPEC, LearnerConfig(), torch.device("cpu"), 0)


def make_batch(num_columns=6):
    batch = example_batch(SPEC, num_columns, [])
    generator = torch.Generator().manual_seed(2)
    batch.observations["x"] = torch.randn(5, num_columns, 1, generator=generator)
    batch.rewards[...] = torch.arange(num_columns)
    return batch


@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("period", [1, 3])
def test_targets_follow_as_declared(rate, period):
    algorithm = Fit(targets={"slow": Target(rate, period)})
    updater = make_eager(algorithm)
    expected = [value.detach().clone() for value in updater.state.networks.parameters()]
    for update in range(1, 8):
        updater(make_batch(), 0.1, {})
        for got, wanted in zip(algorithm.seen[-1][1]["slow"], expected, strict=True):
            torch.testing.assert_close(got, wanted)
        if update % period == 0:
            now = [value.detach() for value in updater.state.networks.parameters()]
            expected = [(1 - rate) * old + rate * new for old, new in zip(expected, now, strict=True)]
    assert all(not value.requires_grad for value in updater.state.targets["slow"].networks.parameters())


def test_a_rate_of_one_is_a_copy():
    updater = make_eager(Fit(targets={"slow": Target()}))
    updater(make_batch(), 0.1, {})
    assert (updater.state.targets["slow"].parameters.vector == updater.state.parameters.vector).all()


def test_buffers_are_set_before_the_update_and_in_targets_too():
    algorithm = Fit(targets={"slow": Target(0.1)})
    updater = make_eager(algorithm)
    updater.state.observe({"size": 4.0}, 0)
    assert updater.state.networks.size == updater.state.targets["slow"].networks.size == 4.0
    updater(make_batch(), 0.1, {})
    assert updater.state.targets["slow"].networks.size == 4.0


def test_passes_go_over_every_column_once_an_epoch_in_an_order_of_their_own():
    algorithm = Fit(Config(epochs=3, parts=2))
    updater = make_eager(algorithm)
    before = updater.state.parameters.vector.clone()
    metrics, _ = updater(make_batch(), 0.01, {})
    assert len(algorithm.seen) == 6
    orders = []
    for epoch in range(3):
        parts = [algorithm.seen[2 * epoch + i][0] for i in range(2)]
        columns = torch.cat([part.rewards[0] for part in parts])
        assert sorted(columns.tolist()) == list(range(6))
        assert all((part.columns["prepared"] == part.rewards + 1).all() for part in parts)
        orders.append(columns.tolist())
    assert orders[0] != orders[1] or orders[1] != orders[2]
    assert (updater.state.parameters.vector != before).any()
    assert metrics["updates_applied"] == 1.0
    assert set(metrics) == {"error", "gradient_norm", "updates_applied"}


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
def test_groups_have_rates_and_decay_of_their_own(kind):
    torch.manual_seed(0)
    mine, theirs = Net(), Net()
    theirs.load_state_dict(mine.state_dict())
    groups = (ParameterGroup("first.", rate=0.1), ParameterGroup("second.", weight_decay=0.05))
    optimizer = FlatOptimizer(FlatParameters(mine), kind, 0.01, float("inf"), groups)
    parts = [
        {"params": theirs.first.parameters(), "lr": 0.01},
        {"params": [theirs.second.weight], "lr": 0.1, "weight_decay": 0.05},
        {"params": [theirs.second.bias], "lr": 0.1},
    ]
    if kind == "adam":
        reference = torch.optim.Adam(parts, eps=0.01)
    else:
        reference = torch.optim.RMSprop(parts, alpha=0.99, eps=0.01)
    inputs = torch.randn(16, 1)
    for _ in range(20):
        loss = (mine(inputs) - 1.0).square().sum()
        optimizer.step(optimizer.parameters.gradient_of(loss), loss.detach(), 0.1)
        reference.zero_grad()
        (theirs(inputs) - 1.0).square().sum().backward()
        reference.step()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_group_that_fits_nothing_is_a_mistake():
    with pytest.raises(ValueError, match=r"none begins with \['third.'\]"):
        FlatOptimizer(FlatParameters(Net()), "adam", 0.01, 1.0, (ParameterGroup("third.", rate=2.0),))


def test_a_loss_that_cannot_be_compiled_runs_uncompiled_and_says_so():
    class Looks(Fit):
        def loss(self, networks, targets, batch, schedule, generator):
            assert batch.rewards.sum() >= 0  # a look at numbers, which tracing does not know
            return super().loss(networks, targets, batch, schedule, generator)

    algorithm = Looks()
    updater = make_updater(
        algorithm, algorithm.make_networks(), SPEC, LearnerConfig(compile="on"), torch.device("cpu"), 0
    )
    with pytest.warns(RuntimeWarning, match="the loss cannot be compiled and runs uncompiled: "):
        updater = updater.warm_up(make_batch(), {})
    assert updater.description.endswith("eager")
    before = updater.state.parameters.vector.clone()
    updater(make_batch(), 0.1, {})
    assert (updater.state.parameters.vector != before).any()


@pytest.mark.parametrize(
    ("precision", "has_frames", "has_units", "wanted"),
    [
        ("auto", True, True, "bfloat16"),
        ("auto", True, False, "float32"),
        ("auto", False, True, "float32"),
        ("bfloat16", False, True, "bfloat16"),
        ("bfloat16", False, False, "float32"),
        ("float32", True, True, "float32"),
    ],
)
def test_products_are_in_bfloat16_where_the_processor_is_faster_in_it(
    precision, has_frames, has_units, wanted, monkeypatch
):
    monkeypatch.setattr(compilation, "cpu_has_bfloat16", lambda: has_units)
    spec = SPEC
    if has_frames:
        environment = dataclasses.replace(SPEC.environment, observations={"x": FramesSpec((8, 8, 1))})
        spec = UnrollSpec(4, environment, SPEC.behaviour)
    seen = []

    class Looks(Fit):
        def loss(self, networks, targets, batch, schedule, generator):
            seen.append(torch.is_autocast_enabled("cpu"))
            return LossOutput(sum(item.sum() for item in networks.parameters()), {})

    algorithm, config = Looks(), LearnerConfig(precision=precision, compile="off")
    updater = make_updater(algorithm, algorithm.make_networks(), spec, config, torch.device("cpu"), 0)
    updater(example_batch(spec, 2, []), 0.1, {})
    assert seen == [wanted == "bfloat16"]
    assert updater.description == f"cpu, {wanted}, eager"


@pytest.mark.parametrize(
    ("observation", "compiles"),
    [(VectorSpec((300,)), False), (VectorSpec((10, 10, 3), layout="channels_last"), True)],
)
def test_on_a_cpu_updates_are_compiled_where_there_are_pictures(observation, compiles, monkeypatch):
    monkeypatch.setattr("learner.updating.factory.can_compile", lambda device: True)
    environment = dataclasses.replace(SPEC.environment, observations={"x": observation})
    spec = dataclasses.replace(SPEC, environment=environment)
    updater = make_updater(Fit(), Net(), spec, LearnerConfig(), torch.device("cpu"), 0)
    assert updater.is_compiled == compiles
