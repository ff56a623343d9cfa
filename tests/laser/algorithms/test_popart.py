"""The loss with a PopArt critic, and how its statistics reach everyone who holds the parameters."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from literal_targets import literal_vtrace
from random_batches import ACTIONS, NUM_INPUTS, make_batch, make_environment

from laser.algorithms.base import ActInput
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.flat_parameters import FlatParameters
from laser.networks.config import NetworkConfig
from laser.ops.popart import TargetStatistics, preserve_outputs, update_statistics
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.updating.factory import make_updater

NUM_TASKS = 3
ENVIRONMENT = dataclasses.replace(make_environment(ACTIONS["discrete"]), tasks=("a", "b", "c"))
CONFIG = ImpalaConfig(popart=True, popart_step_size=0.1, entropy_cost=0.0)


def build(config=CONFIG, dtype=torch.float64):
    algorithm = config.build(ENVIRONMENT, NetworkConfig(hidden_sizes=(16,)))
    networks = algorithm.seeded_networks(0).to(dtype)
    with torch.no_grad():
        networks.value_head.mean.copy_(torch.tensor([1.0, -5.0, 30.0]))
        networks.value_head.variance.copy_(torch.tensor([2.0, 9.0, 400.0]))
    return algorithm, networks


def make(dtype=torch.float64, scale=10.0):
    batch = make_batch(ACTIONS["discrete"], dtype=dtype)
    tasks = (torch.arange(batch.rewards.shape[1]) % 2).expand(batch.rewards.shape).clone()  # task 2 is absent
    return dataclasses.replace(batch, task=tasks, rewards=scale * batch.rewards)


def rescaled(networks, updates):
    """The networks as the optimiser will find them."""
    networks = copy.deepcopy(networks)
    own = networks.state_dict()
    assert set(updates) <= set(own)
    for name, value in updates.items():
        own[name].copy_(value)
    return networks


def test_the_loss_is_the_literal_one_with_targets_from_before_and_errors_from_after():
    (algorithm, networks), batch = build(), make()
    output = algorithm.loss(networks, {}, batch, {}, None)
    output.loss.backward()
    gradient = torch.cat([x.grad.flatten() for x in networks.parameters()])

    with torch.no_grad():
        values = algorithm.evaluate(networks, batch).values
        tasks = torch.cat([batch.task, batch.task[-1:]])
        old_values = values.gather(-1, tasks[..., None])[..., 0].numpy()
    new = TargetStatistics(output.state_updates["value_head.mean"], output.state_updates["value_head.variance"])
    after = rescaled(networks, output.state_updates)
    said = algorithm.evaluate(after, batch)
    torch.testing.assert_close(said.values, values, rtol=1e-10, atol=1e-10)  # the head still says the same

    log_pi = algorithm.distribution.log_prob({"logits": said.policy["logits"][:-1]}, batch.actions)
    rhos = (log_pi - algorithm.distribution.log_prob(batch.mu, batch.actions)).exp().detach().numpy()
    numbers = (batch.rewards.numpy(), batch.discounts.numpy(), old_values[:-1], old_values[-1])
    vs, advantages = literal_vtrace(rhos, *numbers, weight=batch.valid.numpy())
    wanted = update_statistics(networks.value_head.statistics, torch.tensor(vs), batch.task, batch.valid, 0.1)
    torch.testing.assert_close(new.mean, wanted.mean)
    torch.testing.assert_close(new.variance, wanted.variance)

    loss = torch.zeros((), dtype=torch.float64)
    for t, b in np.ndindex(*vs.shape):
        if batch.valid[t, b]:
            task = batch.task[t, b]
            normalized = (said.values[t, b, task] - new.mean[task]) / new.scale[task]
            error = normalized - (vs[t, b] - new.mean[task]) / new.scale[task]
            loss = loss + 0.5 * CONFIG.baseline_cost * error**2 - advantages[t, b] / new.scale[task] * log_pi[t, b]
    loss.backward()
    assert output.loss.item() == pytest.approx(loss.item(), rel=1e-9)
    expected = torch.cat([x.grad.flatten() for x in after.parameters()])
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-9)


def test_without_the_rescaled_heads_gradient_the_step_would_be_another():
    """Differentiating (V - new mean) / new scale at the old weights is off by the ratio of the scales."""
    (_, networks), batch = build(), make(scale=1000.0)
    old, head = networks.value_head.statistics, networks.value_head
    new = update_statistics(old, batch.rewards, batch.task, batch.valid, 0.1)
    weight, _ = preserve_outputs(head.linear.weight, head.linear.bias, old, new)
    assert (weight / head.linear.weight)[0].max() < 0.1


def test_statistics_are_in_the_vector_that_is_published_and_copied():
    _, networks = build(dtype=torch.float32)
    flat = FlatParameters(networks)
    _, other = build(dtype=torch.float32)
    with torch.no_grad():
        networks.value_head.mean.fill_(7.0)
        other.value_head.mean.fill_(-1.0)
    copied = FlatParameters(other)
    copied.load_numpy(flat.to_numpy())
    assert other.value_head.mean.tolist() == [7.0] * NUM_TASKS
    assert {"value_head.mean", "value_head.variance"} <= set(networks.state_dict())


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_an_update_writes_them_unless_the_loss_is_refused(core):
    algorithm = dataclasses.replace(CONFIG, learning_rate=1e-9).build(ENVIRONMENT, NetworkConfig(core=core))
    networks = algorithm.seeded_networks(0)
    spec = UnrollSpec(16, ENVIRONMENT, algorithm.behaviour, dict(algorithm.core_state))
    config = LearnerConfig(compile="off", precision="float32")
    step = make_updater(algorithm, networks, spec, config, torch.device("cpu"), 0)
    state = {name: torch.zeros(8, *array.shape) for name, array in algorithm.core_state.items()}
    batch = dataclasses.replace(make(torch.float32), core_state=state)
    before = algorithm.evaluate(networks, batch).values.detach()
    step(batch, 1e-9, {})
    assert networks.value_head.mean[:2].abs().min() > 0
    assert networks.value_head.mean[2] == 0
    torch.testing.assert_close(algorithm.evaluate(networks, batch).values.detach(), before, rtol=1e-4, atol=1e-3)
    kept = step.state.parameters.to_numpy()
    step(dataclasses.replace(batch, rewards=batch.rewards + torch.inf), 1e-9, {})
    np.testing.assert_array_equal(step.state.parameters.to_numpy(), kept)


def test_actors_say_the_value_where_there_is_one_task_and_none_where_it_is_not_known():
    for tasks, known in ((("",), True), (("a", "b"), False)):
        algorithm = CONFIG.build(dataclasses.replace(ENVIRONMENT, tasks=tasks), NetworkConfig())
        zeros = torch.zeros(4)
        observations = {"observation": torch.ones(4, NUM_INPUTS)}
        networks = algorithm.seeded_networks(0)
        output = algorithm.act(networks, ActInput(observations, zeros.long(), zeros, zeros.bool()), None)
        assert output.values.shape == (4,)
        assert output.values.isfinite().all() == known


def test_rejected_targets_do_not_move_the_statistics():
    config = LaserConfig(popart=True, popart_step_size=0.1, trust_region_threshold=0.0)
    (algorithm, networks), batch = build(config), make()
    updates = algorithm.loss(networks, {}, batch, {}, None).state_updates
    assert torch.equal(updates["value_head.mean"], networks.value_head.mean)
    assert torch.equal(updates["value_head.linear.weight"], networks.value_head.linear.weight)


def test_two_tasks_a_thousandfold_apart_are_both_learned():
    """A critic with one scale would fit the large one only: both fit to the same relative error with PopArt."""
    errors = {}
    for popart in (True, False):
        config = ImpalaConfig(popart=popart, popart_step_size=0.01, optimizer="adam", optimizer_epsilon=1e-8)
        environment = dataclasses.replace(ENVIRONMENT, tasks=("small", "large"))
        algorithm = config.build(environment, NetworkConfig(hidden_sizes=(32,)))
        networks = algorithm.seeded_networks(0)
        spec = UnrollSpec(16, environment, algorithm.behaviour)
        step = make_updater(algorithm, networks, spec, LearnerConfig(compile="off"), torch.device("cpu"), 0)
        batch = make_batch(ACTIONS["discrete"])
        tasks = (torch.arange(8) % 2).expand(16, 8)
        observations = batch.observations["observation"].clone()
        observations[:-1, :, 3] = tasks.float()
        sizes = torch.where(tasks == 1, 1000.0, 1.0)
        truth = sizes * (2.0 + observations[:-1, :, 0].sign())
        logits = {"logits": torch.zeros(16, 8, 3)}
        batch = dataclasses.replace(
            batch, observations={"observation": observations}, task=tasks, rewards=truth, mu=logits,
            discounts=torch.zeros(16, 8), valid=torch.ones(16, 8, dtype=torch.bool),
        )  # fmt: skip
        for _ in range(400):
            step(batch, 3e-3, {})
        values = algorithm.evaluate(networks, batch).values[:-1].detach()
        values = values.gather(-1, tasks[..., None])[..., 0] if popart else values
        errors[popart] = [((values - truth).abs() / sizes)[tasks == task].mean().item() for task in (0, 1)]
    # A constant per task would be off by 1.
    assert max(errors[True]) < 0.6
    assert min(errors[False]) > 1.2
