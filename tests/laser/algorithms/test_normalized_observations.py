"""Observations standardised by the running statistics of fresh experience."""

import dataclasses

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, make_batch, make_environment

from laser.algorithms.base import ActInput
from laser.algorithms.laser import LaserConfig
from laser.algorithms.normalization import RunningNormalizer
from laser.algorithms.ppo import PpoConfig
from laser.flat_parameters import FlatParameters
from laser.networks.config import NetworkConfig
from laser.specs import CategorySpec, FramesSpec, VectorSpec

NETWORK = NetworkConfig(hidden_sizes=(8,))
SHIFT, SCALE = torch.tensor([100.0, -3.0, 0.0, 7.0]), torch.tensor([20.0, 0.01, 1.0, 0.0])
"""Of the four components; the last one never changes."""


def build(config, observations=None):
    environment = make_environment(ACTIONS["discrete"])
    if observations:
        environment = dataclasses.replace(environment, observations=observations)
    algorithm = config.build(environment, NETWORK)
    return algorithm, algorithm.seeded_networks(0)


def make(seed):
    batch = make_batch(ACTIONS["discrete"], seed=seed)
    return dataclasses.replace(
        batch, observations={"observation": SHIFT + SCALE * (seed + batch.observations["observation"])}
    )


def learn(algorithm, networks, batch):
    updates = algorithm.loss(networks, {}, batch, {}, torch.Generator().manual_seed(0)).state_updates
    own = networks.state_dict()
    for name, value in updates.items():
        own[name].copy_(value)


def seen(batch, counted):
    return batch.observations["observation"][:-1][counted].numpy().astype(np.float64)


@pytest.mark.parametrize("replay_fraction", [0.5, 1.0])
def test_statistics_are_those_of_all_fresh_steps_or_of_all_where_nothing_is_fresh(replay_fraction):
    algorithm, networks = build(LaserConfig(normalize_observations=True, replay_fraction=replay_fraction))
    rows = []
    for seed in range(5):
        batch = make(seed)
        rows.append(seen(batch, batch.valid & batch.online if replay_fraction < 1 else batch.valid))
        learn(algorithm, networks, batch)
    wanted = np.concatenate(rows)
    normalizer = networks.running_normalizer
    assert normalizer.count == len(wanted)
    np.testing.assert_allclose(normalizer.mean_0, wanted.mean(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(normalizer.std_0, wanted.std(0), rtol=1e-4, atol=1e-5)


def test_networks_see_standard_units_in_the_loss_and_when_they_act():
    algorithm, networks = build(LaserConfig(normalize_observations=True))
    learn(algorithm, networks, make(0))
    batch, normalizer = make(1), networks.running_normalizer
    plain, plain_networks = build(LaserConfig())
    plain_networks.load_state_dict(
        {name: value for name, value in networks.state_dict().items() if not name.startswith("running_normalizer.")}
    )
    raw = batch.observations["observation"]
    standard = ((raw - normalizer.mean_0) / (normalizer.std_0 + 1e-4)).clamp(-20.0, 20.0)
    assert standard[..., 3].abs().max() < 0.1  # what never changes is no signal
    assert standard[..., :3].abs().mean() < 3.0
    as_seen = dataclasses.replace(batch, observations={"observation": standard})
    torch.testing.assert_close(
        algorithm.evaluate(networks, batch).policy, plain.evaluate(plain_networks, as_seen).policy
    )
    inputs = ActInput({"observation": raw[0]}, batch.last_action, batch.last_reward, batch.first[0], {})
    as_seen_inputs = dataclasses.replace(inputs, observations={"observation": standard[0]})
    acted = algorithm.act(networks, inputs, None, greedy=True)
    torch.testing.assert_close(acted.mu, plain.act(plain_networks, as_seen_inputs, None, greedy=True).mu)


def test_rows_that_do_not_count_may_hold_anything_and_none_that_count_change_nothing():
    algorithm, networks = build(LaserConfig(normalize_observations=True))
    learn(algorithm, networks, make(0))
    before = {name: value.clone() for name, value in networks.running_normalizer.state_dict().items()}
    normalizer = networks.running_normalizer
    broken = {"observation": torch.full((3, 2, 4), torch.nan)}
    after = normalizer.updates(broken, torch.zeros(3, 2, dtype=torch.bool))
    torch.testing.assert_close(after, before)
    fresh = RunningNormalizer({"observation": VectorSpec((4,))})
    some = {"observation": torch.stack([torch.full((2, 4), torch.nan), torch.arange(8.0).reshape(2, 4)])}
    found = fresh.updates(some, torch.tensor([[False, False], [True, True]]))
    torch.testing.assert_close(found["mean_0"], torch.tensor([2.0, 3.0, 4.0, 5.0]))
    torch.testing.assert_close(found["std_0"], torch.full((4,), 2.0))
    torch.testing.assert_close(
        fresh.updates(broken, torch.zeros(3, 2, dtype=torch.bool)), dict(fresh.state_dict()), rtol=0.0, atol=0.0
    )


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("number", [1e25, -torch.finfo(torch.float32).max])
def test_a_huge_number_leaves_the_statistics_finite(is_first, number):
    """Some environments mark what is missing by the largest float32, whose square is infinite."""
    normalizer = RunningNormalizer({"observation": VectorSpec((2,))})
    batches = [{"observation": torch.randn(8, 4, 2)} for _ in range(2)]
    batches[0 if is_first else 1]["observation"][3, 1, 0] = number
    for batch in batches:
        normalizer.load_state_dict(normalizer.updates(batch, torch.ones(8, 4, dtype=torch.bool)))
    assert all(torch.isfinite(value).all() for value in normalizer.state_dict().values())
    others = torch.cat([batch["observation"][..., 1].flatten() for batch in batches])
    torch.testing.assert_close(normalizer.mean_0[1], others.mean())
    assert torch.isfinite(normalizer(batches[0])["observation"]).all()


def test_ppo_counts_the_steps_of_its_batch_in_each_pass():
    algorithm, networks = build(PpoConfig(normalize_observations=True))
    batch = make(0)
    wanted = seen(batch, batch.valid & batch.online)
    for number in (1, 2):
        learn(algorithm, networks, algorithm.prepare(networks, batch))
        assert networks.running_normalizer.count == number * len(wanted)
    np.testing.assert_allclose(networks.running_normalizer.mean_0, wanted.mean(0), rtol=1e-5, atol=1e-5)


def test_statistics_are_published_with_the_weights():
    algorithm, networks = build(LaserConfig(normalize_observations=True))
    learn(algorithm, networks, make(0))
    _, other = build(LaserConfig(normalize_observations=True))
    FlatParameters(other).load_numpy(FlatParameters(networks).to_numpy())
    assert other.running_normalizer.count > 0
    torch.testing.assert_close(other.state_dict(), networks.state_dict())


def test_pictures_texts_and_categories_stay_as_they_are():
    observations = {
        "numbers": VectorSpec((2,)),
        "scalar": VectorSpec(()),
        "text": VectorSpec((3, 2), alphabet="ab"),
        "category": CategorySpec(5),
        "picture of numbers": VectorSpec((6, 6, 3), layout="channels_last"),
        "frames": FramesSpec((12, 12), high=255),
    }
    _, networks = build(LaserConfig(normalize_observations=True), observations)
    batch = {name: torch.full((1, 1, *getattr(spec, "shape", (1, 12, 12))), 3.0) for name, spec in observations.items()}
    networks.running_normalizer.load_state_dict(
        {**networks.running_normalizer.state_dict(), "mean_0": torch.ones(2), "mean_1": torch.ones(())}
    )
    assert set(networks.running_normalizer.state_dict()) == {"count", "mean_0", "std_0", "mean_1", "std_1"}
    standard = networks.running_normalizer(batch)
    assert {name: value.flatten()[0].item() for name, value in standard.items()} == pytest.approx(
        dict.fromkeys(observations, 3.0) | {"numbers": 2.0, "scalar": 2.0}, rel=1e-3
    )


@pytest.mark.parametrize("config", [LaserConfig(normalize_observations=True), PpoConfig(normalize_observations=True)])
def test_where_there_are_no_numbers_it_says_so(config):
    frames = {"frames": FramesSpec((12, 12), high=255)}
    with pytest.raises(ValueError, match="normalize-observations: normalises vectors of numbers, and there are none"):
        build(config, frames)
