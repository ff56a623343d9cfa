"""What every algorithm tells samplers, and what every rule makes of it."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from random_batches import ACTIONS, make_batch, make_environment
from replayed_steps import CPU, NUM_ITEMS, sample_of, steps_batch

from laser.algorithms import find_algorithms
from laser.networks.config import NetworkConfig
from laser.prioritization.base import Replayed, find_prioritizers, missing_numbers, prioritizer_for
from replay_server.config import ReplayConfig
from replay_server.samplers import find_samplers


def built(name):
    config = find_algorithms()[name]()
    if hasattr(config, "refer"):  # of steps that are far from the policy little is learned
        config = dataclasses.replace(config, refer=dataclasses.replace(config.refer, enabled=False))
    for actions in (ACTIONS["discrete"], ACTIONS["continuous"]):
        try:
            return config.build(make_environment(actions), NetworkConfig()), actions
        except ValueError:
            continue
    raise AssertionError(f"{name} takes neither discrete nor continuous actions")


@pytest.mark.parametrize("name", find_algorithms())
def test_a_loss_says_what_its_algorithm_declares(name):
    algorithm, actions = built(name)
    if algorithm.config.passes != (1, 1) or not algorithm.per_step:
        assert algorithm.config.view == "unrolls", "single steps are drawn by samplers, which need td_error and q"
        return
    is_steps = algorithm.config.view == "steps"
    batch = steps_batch(actions, algorithm.columns) if is_steps else make_batch(actions)
    mu = {key: value for key, value in batch.mu.items() if key in algorithm.behaviour}
    shape = batch.shape
    for key, array in algorithm.behaviour.items():
        mu.setdefault(key, torch.zeros(*shape, *array.shape))
    batch = dataclasses.replace(batch, mu=mu)
    networks = algorithm.seeded_networks(0)
    targets = {key: copy.deepcopy(networks) for key in algorithm.targets}
    output = algorithm.loss(networks, targets, batch, {}, torch.Generator().manual_seed(0))
    assert set(output.per_step) == set(algorithm.per_step)
    for key, value in output.per_step.items():
        assert value.shape in {(shape[0], shape[1]), (1, shape[1])}, key
        assert value.isfinite().all(), key
    if "priority" in output.per_step:
        assert (output.per_step["priority"] >= 0).all()
    if is_steps:
        assert {"td_error", "q"} <= set(algorithm.per_step), "every sampler must work with every step-based agent"


@pytest.mark.parametrize("name", [name for name, config in find_algorithms().items() if config.view == "steps"])
def test_twice_the_weight_is_twice_the_critics_gradient(name):
    """Importance weights reach the loss: all of them 0 leave the critic without gradient, and the sum is linear."""
    algorithm, actions = built(name)
    batch = steps_batch(actions, algorithm.columns)
    mu = {key: batch.mu.get(key, torch.zeros(1, NUM_ITEMS, *array.shape)) for key, array in algorithm.behaviour.items()}
    gradients = []
    for weight in (0.0, 1.0, 2.0):
        networks = algorithm.seeded_networks(0)
        targets = {key: copy.deepcopy(networks) for key in algorithm.targets}
        weighted = dataclasses.replace(batch, mu=mu, importance_weights=torch.full((NUM_ITEMS,), weight))
        output = algorithm.loss(networks, targets, weighted, {}, torch.Generator().manual_seed(0))
        output.loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in networks.parameters() if p.grad is not None]))
    torch.testing.assert_close(gradients[2] - gradients[1], gradients[1] - gradients[0], rtol=1e-3, atol=1e-5)
    assert not torch.allclose(gradients[1], gradients[0])


def config_of(kind):
    """Return the config of a sampler that a rule feeds."""
    columns = {spec.name for spec in kind.columns}
    return ReplayConfig(sampler=next(sampler.name for sampler in find_samplers() if sampler.column in columns))


@pytest.mark.parametrize("kind", find_prioritizers())
@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_a_rule_writes_its_columns_whatever_the_numbers_are(kind, actions):
    rule = kind(config_of(kind), make_environment(actions), CPU, seed=1)
    replayed = Replayed(sample_of(), steps_batch(actions, kind.columns))
    numbers = torch.randn(1, NUM_ITEMS, generator=torch.Generator().manual_seed(2))
    numbers[0, 0], numbers[0, 1], numbers[0, 2] = torch.nan, torch.inf, 1e30
    written = rule.prepare([replayed])[0] | rule.values(replayed, {"td_error": numbers, "q": 3.0 * numbers})
    declared = {spec.name for spec in kind.columns}
    assert set(written) <= declared
    for name, value in written.items():
        assert value.shape == (1, NUM_ITEMS), name
        assert value.isfinite().all(), name
        assert not value.requires_grad, name


def test_rules_are_found_by_the_column_that_a_sampler_reads():
    names = {column: prioritizer_for(column).__name__ for column in ("priority", "ners_score", "ero_keep")}
    assert names == {"priority": "Per", "ners_score": "Ners", "ero_keep": "Ero"}
    assert prioritizer_for("rho") is None


def test_what_a_loss_does_not_say_is_named():
    assert missing_numbers(prioritizer_for("priority"), ("q",)) == ["priority or td_error"]
    assert missing_numbers(prioritizer_for("priority"), ("priority",)) == []
    assert missing_numbers(prioritizer_for("ners_score"), ("td_error",)) == ["q"]
    assert missing_numbers(prioritizer_for("ero_keep"), ()) == ["td_error"]


def test_priorities_are_magnitudes_or_what_the_loss_says_instead():
    rule = prioritizer_for("priority")(ReplayConfig(sampler="per"), make_environment(ACTIONS["discrete"]), CPU, seed=0)
    replayed = Replayed(sample_of(3), steps_batch(ACTIONS["discrete"], num_items=3))
    errors = torch.tensor([[-2.0, 0.0, torch.nan]])
    # What is right by now can be drawn again; what is not a number counts as what was never learned from.
    expected = torch.tensor([[2.0 + 1e-6, 1e-6, 1.0 + 1e-6]])
    torch.testing.assert_close(rule.values(replayed, {"td_error": errors})["priority"], expected, rtol=0, atol=1e-9)
    said = rule.values(replayed, {"td_error": errors, "priority": torch.tensor([[7.0, 8.0, 9.0]])})
    torch.testing.assert_close(said["priority"], torch.tensor([[7.0, 8.0, 9.0]]) + 1e-6)
