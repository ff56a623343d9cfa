"""PPO's whole loss against a literal one, through its preparation and parts; and its step sizes over time."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, make_batch, make_environment

from laser.algorithms.ppo import PpoConfig
from laser.networks.config import NetworkConfig

CONFIGS = [
    PpoConfig(entropy_cost=0.3),
    PpoConfig(standardize_advantages=False, reward_scale=0.3, baseline_cost=0.7, clip=0.1, gae_lambda=0.5),
]


def build(config, actions):
    torch.manual_seed(0)
    algorithm = config.build(make_environment(actions), NetworkConfig(hidden_sizes=(16,), separate_critic=True))
    networks = algorithm.make_networks().double()
    with torch.no_grad():  # away from the near-uniform start, so that ratios leave the clip on both sides
        networks.policy_head.linear.weight.mul_(30.0)
    return algorithm, networks


def cut(batch, columns):
    """Return some columns of a prepared batch, as the learner's minibatches are."""
    changed = {}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, dict):
            changed[field.name] = {name: item[:, columns] for name, item in value.items()}
        elif value is not None:
            changed[field.name] = value[columns] if field.name in VECTORS else value[:, columns]
    return dataclasses.replace(batch, **changed)


VECTORS = ("last_action", "last_reward", "importance_weights")


def log_density(policy, action):
    """Natural log of the probability (density) of one action, in the plainest form."""
    if "logits" in policy:
        return policy["logits"][action] - policy["logits"].exp().sum().log()
    errors = (action - policy["mean"]) / policy["std"]
    return (-0.5 * errors**2 - policy["std"].log() - 0.5 * math.log(2 * math.pi)).sum()


def entropy(policy):
    if "logits" in policy:
        probabilities = torch.softmax(policy["logits"], -1)
        return -(probabilities * probabilities.log()).sum()
    return (policy["std"].log() + 0.5 * math.log(2 * math.pi * math.e)).sum()


def literal_advantages(config, batch, values):
    """The double sum of equation 16 of Schulman et al. 2016, which stops at a row without a transition."""
    rewards, discounts, valid = batch.rewards.numpy(), batch.discounts.numpy(), batch.valid.numpy()
    advantages = np.zeros_like(rewards)
    for b in range(rewards.shape[1]):
        for s in range(len(rewards)):
            weight = 1.0
            for t in range(s, len(rewards)):
                if not valid[t, b]:
                    break
                following = discounts[t, b] * values[t + 1, b]
                advantages[s, b] += weight * (config.reward_scale * rewards[t, b] + following - values[t, b])
                weight *= discounts[t, b] * config.gae_lambda
    return advantages


def literal_loss(config, networks, batch, steps):
    """The mean over these steps (t, b) that hold a transition, one after the other."""
    output = networks(batch.observations, None, None, batch.first, {})
    values = output.values.detach().numpy()
    every = literal_advantages(config, batch, values)
    steps = [(t, b) for t, b in steps if batch.valid[t, b]]
    advantages = {step: every[step] for step in steps}
    if config.standardize_advantages:
        mean, deviation = np.mean(list(advantages.values())), np.std(list(advantages.values()))
        advantages = {step: (value - mean) / deviation for step, value in advantages.items()}
    loss = torch.zeros((), dtype=torch.float64)
    num_clipped = 0
    for t, b in steps:
        pi = {name: value[t, b] for name, value in output.policy.items()}
        mu = {name: value[t, b] for name, value in batch.mu.items()}
        ratio = (log_density(pi, batch.actions[t, b]) - log_density(mu, batch.actions[t, b])).exp()
        kept = min(max(ratio.item(), 1 - config.clip), 1 + config.clip)
        advantage = float(advantages[t, b])
        clipped = kept * advantage < ratio.item() * advantage
        num_clipped += clipped
        loss = loss - (kept * advantage if clipped else ratio * advantage)
        target = values[t, b] + every[t, b]
        loss = loss + config.baseline_cost * 0.5 * (output.values[t, b] - target) ** 2
        loss = loss - config.entropy_cost * entropy(pi)
    assert 0 < num_clipped < len(steps), "the interesting branch was not reached"
    return loss / len(steps)


def gradient_of(networks, loss):
    networks.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in networks.parameters()])


@pytest.mark.parametrize("actions", ["discrete", "continuous"])
@pytest.mark.parametrize("config", CONFIGS, ids=["default", "changed"])
def test_ppo_is_its_literal_loss(config, actions):
    batch = make_batch(ACTIONS[actions], dtype=torch.float64)
    algorithm, networks = build(config, ACTIONS[actions])
    num_rows, num_columns = batch.shape
    columns = torch.randperm(num_rows * num_columns, generator=torch.Generator().manual_seed(1))[:40]
    with torch.no_grad():
        prepared = algorithm.prepare(networks, batch)
    output = algorithm.loss(networks, {}, cut(prepared, columns), {}, None)
    gradient = gradient_of(networks, output.loss)
    steps = [divmod(column, num_columns) for column in columns.tolist()]
    expected = literal_loss(config, networks, batch, steps)
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-7)
    torch.testing.assert_close(gradient, gradient_of(networks, expected), rtol=1e-6, atol=1e-8)


def test_step_sizes_shrink_with_all_updates():
    config = PpoConfig(num_epochs=5, num_minibatches=4, annealing=0.01)
    assert config.rate_factor(0) == 1.0
    assert config.rate_factor(5) == pytest.approx(1.0 / (1.0 + 0.01 * 100))
    assert PpoConfig(annealing=0.0).rate_factor(1000) == 1.0


def test_every_batch_is_fresh_and_of_the_newest_policy():
    """The ratios of the first pass are then 1: nobody acted for this batch with another version."""
    assert PpoConfig().max_policy_lag == 0
    assert PpoConfig(num_epochs=3, num_minibatches=5).passes == (3, 5)
    assert list(PpoConfig().problems()) == []
    (problem,) = PpoConfig(replay_fraction=0.5).problems()
    assert str(problem) == "replay-fraction: must be 0: ppo learns from fresh experience only, got 0.5; leave it out"


def test_a_step_size_of_the_critics_own_needs_a_critic_of_its_own():
    shared, separate = NetworkConfig(), NetworkConfig(separate_critic=True)
    config = PpoConfig(baseline_rate=3.0)
    assert config.warnings(separate, "fifo") == []
    assert [problem.key for problem in config.warnings(shared, "fifo")] == ["algorithm.baseline-rate"]
    assert PpoConfig(baseline_rate=1.0).warnings(shared, "fifo") == []
