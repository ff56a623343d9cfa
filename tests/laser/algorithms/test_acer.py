"""ACER with one discrete choice: the whole gradient against a literal one, and what must not reach what."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from literal_targets import literal_retrace
from random_batches import ACTIONS, make_batch, make_environment

from laser.algorithms.acer import AVERAGE, AcerConfig
from laser.algorithms.base import Target
from laser.config import find_problems
from laser.networks.config import NetworkConfig

DISCRETE = ACTIONS["discrete"]
# A small truncation and region, so that both are at work on this batch.
CONFIG = AcerConfig(truncation=1.5, trust_region=0.2, entropy_cost=0.3, critic_cost=0.7, trace_lambda=0.9)


def build(config=CONFIG, **network):
    torch.manual_seed(0)
    algorithm = config.build(make_environment(DISCRETE), NetworkConfig(hidden_sizes=(16,), **network))
    networks = algorithm.make_networks().double()
    with torch.no_grad():
        networks.policy_head.linear.weight.mul_(100.0)
        networks.value_head.weight.mul_(100.0)
    average = copy.deepcopy(networks)
    with torch.no_grad():
        average.policy_head.linear.weight.add_(0.5 * torch.randn_like(average.policy_head.linear.weight))
    return algorithm, networks, {AVERAGE: average.requires_grad_(False)}


def double_batch(**options):
    batch = make_batch(DISCRETE, dtype=torch.float64, **options)
    return dataclasses.replace(batch, importance_weights=torch.linspace(0.2, 1.0, 8, dtype=torch.float64))


def gradients(config=CONFIG, batch=None, network=None):
    algorithm, networks, targets = build(config, **(network or {}))
    output = algorithm.loss(networks, targets, double_batch() if batch is None else batch, {}, None)
    output.loss.backward()
    return output, {name: item.grad for name, item in networks.named_parameters()}


def literal_gradients(config, batch, *, project_mean=False, average_first=True, trace_ratios=True):
    """Return the gradient as a loop over rows, every sum written out, with autograd for the chain rule alone."""
    _, networks, targets = build(config)
    shape = batch.rewards.shape
    output = networks(batch.observations, None, None, batch.first, {})
    pi, q = torch.softmax(output.policy["logits"], -1), output.values
    average = torch.softmax(
        targets[AVERAGE](batch.observations, None, None, batch.first, {}).policy["logits"], -1
    ).numpy()
    mu, actions = torch.softmax(batch.mu["logits"], -1).numpy(), batch.actions.numpy()
    p, qs = pi.detach().numpy(), q.detach().numpy()
    values = (p * qs).sum(-1)
    rows, columns = np.indices(shape)
    rhos = p[rows, columns, actions] / mu[rows, columns, actions]
    q_taken = qs[rows, columns, actions]
    q_retrace = literal_retrace(
        q_taken,
        values[1:],
        rhos if trace_ratios else np.ones_like(rhos),
        batch.rewards.numpy(),
        batch.discounts.numpy(),
        config.trace_lambda,
        batch.valid.numpy(),
    )
    loss, active = torch.zeros((), dtype=torch.float64), 0
    for t in range(shape[0]):
        for b in range(shape[1]):
            if not batch.valid[t, b]:
                continue
            a = actions[t, b]
            g = np.zeros(3)
            g[a] += min(config.truncation, rhos[t, b]) * (q_retrace[t, b] - values[t, b]) / p[t, b, a]
            for other in range(3):
                rho = p[t, b, other] / mu[t, b, other]
                factor = max(0.0, (rho - config.truncation) / rho)
                g[other] += p[t, b, other] * factor * (qs[t, b, other] - values[t, b]) / p[t, b, other]
            entropy_gradient = -config.entropy_cost * (np.log(p[t, b]) + 1.0)
            if config.entropy_in_trust_region:
                g = g + entropy_gradient
            k = -average[t, b] / p[t, b] if average_first else np.log(p[t, b] / average[t, b]) + 1.0
            excess = max(0.0, k @ g - config.trust_region)
            active += excess > 0
            z = g - excess / (k @ k) * k
            if not config.entropy_in_trust_region:
                z = z + entropy_gradient
            weight = batch.importance_weights[b] / (shape[0] * shape[1])
            loss = loss - weight * (torch.tensor(z) * pi[t, b]).sum()
            loss = loss + weight * config.critic_cost * 0.5 * (q_retrace[t, b] - q[t, b, a]) ** 2
    loss.backward()
    return {name: item.grad for name, item in networks.named_parameters()}, active


@pytest.mark.parametrize(
    "config",
    [CONFIG, dataclasses.replace(CONFIG, entropy_in_trust_region=False), AcerConfig(trust_region=1e6)],
    ids=["inside", "outside", "wide"],
)
def test_acer_is_its_literal_gradient(config):
    batch = double_batch()
    output, got = gradients(config, batch)
    expected, active = literal_gradients(config, batch)
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-9, atol=1e-10, msg=name)
    assert output.metrics["projected_fraction"].item() == pytest.approx(active / batch.valid.sum().item())
    if config.trust_region < 1:
        assert 0.1 < active / batch.valid.sum() < 0.9


@pytest.mark.parametrize("mistake", [{"average_first": False}, {"trace_ratios": False}])
def test_the_batch_can_tell_the_mistakes(mistake):
    _, got = gradients()
    wrong, _ = literal_gradients(CONFIG, double_batch(), **mistake)
    assert any(not torch.allclose(got[name], value, rtol=1e-3, atol=1e-6) for name, value in wrong.items())


def test_without_a_trust_region_the_gradient_is_that_of_a_wide_one_and_an_average_is_kept_for_later():
    config = AcerConfig(trust_region=float("inf"))
    assert build(config)[0].targets == {AVERAGE: Target(0.01)}
    _, off = gradients(config)
    _, wide = gradients(AcerConfig(trust_region=1e9))
    for name, value in off.items():
        torch.testing.assert_close(value, wide[name])


def test_the_critics_loss_moves_no_policy_and_the_policys_no_critic():
    _, both = gradients(network={"separate_critic": True})
    _, no_critic = gradients(dataclasses.replace(CONFIG, critic_cost=0.0), network={"separate_critic": True})
    for name, value in both.items():
        of_critic = name.startswith(("critic_encoder", "value_head"))
        if of_critic:
            assert value.abs().sum() > 0
            assert no_critic[name].abs().sum() == 0, name
        else:
            torch.testing.assert_close(value, no_critic[name])


def test_rows_without_a_transition_may_hold_anything():
    batch = double_batch()
    _, clean = gradients(batch=batch)
    rewards = torch.where(batch.valid, batch.rewards, float("nan"))
    logits = torch.where(batch.valid.unsqueeze(-1), batch.mu["logits"], float("nan"))
    output, dirty = gradients(batch=dataclasses.replace(batch, rewards=rewards, mu={"logits": logits}))
    for name, value in clean.items():
        torch.testing.assert_close(dirty[name], value, msg=name)
    assert all(torch.isfinite(value) for value in output.metrics.values())


def test_on_policy_the_first_ratio_is_one_and_nothing_is_truncated():
    algorithm, networks, targets = build()
    batch = double_batch()
    logits = networks(batch.observations, None, None, batch.first, {}).policy["logits"][:-1].detach()
    metrics = algorithm.loss(networks, targets, dataclasses.replace(batch, mu={"logits": logits}), {}, None).metrics
    for source in ("online", "own_replay", "foreign_replay"):
        assert metrics[f"abs_log_rho_{source}"].item() == pytest.approx(0.0, abs=1e-12)
        assert metrics[f"truncated_fraction_{source}"].item() == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"truncation": 0.9}, "truncation: must be at least 1, got 0.9"),
        ({"trust_region": 0.0}, "trust-region: must be above 0, got 0.0"),
        ({"trust_region": -1.0}, "trust-region: must be above 0, got -1.0"),
        ({"average_rate": 0.0}, "average-rate: must be above 0 and at most 1, got 0.0"),
        ({"replay_ratio": -1.0}, "replay-ratio: must be at least 0, got -1.0"),
        (
            {"replay_fraction": 0.5},
            "replay-fraction: must be 0 beside replay-ratio 4, which replays whole batches, got 0.5; leave it out, or "
            "use replay-ratio 0",
        ),
    ],
)
def test_mistakes_are_one_line_each(changes, message):
    assert [str(problem) for problem in find_problems(AcerConfig(**changes))] == [message]


def test_replays_are_whole_batches():
    config = AcerConfig(batch_size=6)
    assert (config.num_online, config.num_replayed, config.num_drawn) == (6, 0, 6)
    without = AcerConfig(batch_size=6, replay_ratio=0.0)
    assert (without.num_online, without.num_drawn) == (6, 0)


@pytest.mark.parametrize("actions", ["multi_discrete", "continuous"])
def test_other_actions_are_refused(actions):
    with pytest.raises(ValueError, match=r"algorithm: acer needs Discrete actions, probe has .*; use laser or impala$"):
        AcerConfig().build(make_environment(ACTIONS[actions]), NetworkConfig())
