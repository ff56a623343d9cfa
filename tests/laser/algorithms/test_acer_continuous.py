"""Continuous ACER: its gradient against a literal one, what moves what, and how often networks are evaluated."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, make_batch, make_environment
from torch.distributions import Normal

from laser.algorithms.acer import AVERAGE
from laser.algorithms.acer_continuous import AcerContinuousConfig
from laser.config import find_problems
from laser.networks.config import NetworkConfig
from laser.ops.retrace import retrace_targets
from laser.ops.vtrace import vtrace_targets

CONTINUOUS = ACTIONS["continuous"]
CONFIG = AcerContinuousConfig(truncation=1.5, trust_region=0.2, critic_cost=0.7, trace_lambda=0.9, std="learned")
SEED = 3


def build(config=CONFIG, **network):
    torch.manual_seed(0)
    settings = NetworkConfig(hidden_sizes=(16,), initial_std=0.8, **network)
    algorithm = config.build(make_environment(CONTINUOUS), settings)
    networks = algorithm.make_networks().double()
    with torch.no_grad():
        networks.policy_head.linear.weight.mul_(100.0)
        if config.critic != "state_value":
            networks.advantage_head.linear.weight.mul_(100.0)
    average = copy.deepcopy(networks)
    with torch.no_grad():
        average.policy_head.linear.weight.add_(0.3 * torch.randn_like(average.policy_head.linear.weight))
        average.policy_head.log_std.add_(0.2)
    return algorithm, networks, {AVERAGE: average.requires_grad_(False)}


def double_batch(**options):
    batch = make_batch(CONTINUOUS, dtype=torch.float64, **options)
    return dataclasses.replace(batch, importance_weights=torch.linspace(0.2, 1.0, 8, dtype=torch.float64))


def gradients(config=CONFIG, batch=None, **network):
    algorithm, networks, targets = build(config, **network)
    batch = double_batch() if batch is None else batch
    output = algorithm.loss(networks, targets, batch, {}, torch.Generator().manual_seed(SEED))
    output.loss.backward()
    gradient = {
        name: torch.zeros_like(item) if item.grad is None else item.grad for name, item in networks.named_parameters()
    }
    return output, gradient


def backwards(q_taken, next_values, rewards, discounts, traces, valid):
    """Return r + disc (c' (target' - Q') + V') from the last row to the first; the trace into a row is its own."""
    targets = q_taken.copy()
    for b in range(rewards.shape[1]):
        for t in range(len(rewards) - 1, -1, -1):
            if not valid[t, b]:
                continue
            later = 0.0
            if t + 1 < len(rewards) and valid[t + 1, b]:
                later = traces[t + 1, b] * (targets[t + 1, b] - q_taken[t + 1, b])
            targets[t, b] = rewards[t, b] + discounts[t, b] * (later + next_values[t, b])
    return targets


def literal_gradients(config, batch, *, root=2.0, apart=False, opc_trace=1.0, **network):
    algorithm, networks, targets = build(config, **network)
    shape = batch.rewards.shape
    output = networks(batch.observations, None, None, batch.first, {})
    average = {
        name: value.numpy()
        for name, value in targets[AVERAGE](batch.observations, None, None, batch.first, {}).policy.items()
    }
    learned = config.std == "learned"
    mean, std = (output.policy[name][:-1] for name in ("mean", "std"))
    if not learned:
        std = std.detach()
    num_drawn = 6 if config.critic == "stochastic_dueling" else 1
    several = {name: each.detach().expand(num_drawn, *each.shape) for name, each in (("mean", mean), ("std", std))}
    drawn = algorithm.distribution.sample(several, torch.Generator().manual_seed(SEED))
    features = output.critic_features[:-1]
    if config.separate_advantage:
        rows = [
            networks.advantage_encoder({name: each[t] for name, each in batch.observations.items()})
            for t in range(shape[0])
        ]
        features = torch.stack(rows)

    def advantage(actions):
        return networks.advantage_head(features, actions.unsqueeze(0))[0]

    values = output.values
    centre = sum(advantage(drawn[i]) for i in range(1, num_drawn)) / 5.0
    q_taken, q_drawn = (values[:-1] + advantage(actions) - centre for actions in (batch.actions, drawn[0]))

    def rho(actions):
        log_ratio = Normal(mean, std).log_prob(actions) - Normal(batch.mu["mean"], batch.mu["std"]).log_prob(actions)
        return log_ratio.sum(-1).exp().detach().numpy()

    rhos, drawn_rhos = rho(batch.actions), rho(drawn[0])
    numbers = [x.detach().numpy() for x in (q_taken, values[1:], batch.rewards, batch.discounts)]
    valid = batch.valid.numpy()
    q_retrace = backwards(*numbers, config.trace_lambda * np.minimum(1.0, rhos ** (1.0 / root)), valid)
    q_opc = backwards(*numbers, np.full(shape, opc_trace), valid) if config.policy_target == "q_opc" else q_retrace
    v = values[:-1].detach().numpy()
    value_targets = np.minimum(1.0, rhos) * (q_retrace - numbers[0]) + v
    loss, active = torch.zeros((), dtype=torch.float64), 0
    for t in range(shape[0]):
        for b in range(shape[1]):
            if not valid[t, b]:
                continue
            phi = torch.cat([mean[t, b], std[t, b]]).detach().requires_grad_()
            own = Normal(phi[:2], phi[2:])
            g = np.zeros(4)
            for actions, weight in (
                (batch.actions[t, b], min(config.truncation, rhos[t, b]) * (q_opc[t, b] - v[t, b])),
                (
                    drawn[0, t, b],
                    max(0.0, 1.0 - config.truncation / drawn_rhos[t, b]) * (q_drawn[t, b].item() - v[t, b]),
                ),
            ):
                g += weight * torch.autograd.grad(own.log_prob(actions).sum(), phi)[0].numpy()
            if config.entropy_in_trust_region:
                g[2:] += config.entropy_cost * (1.0 / std[t, b]).detach().numpy()
            slow = Normal(torch.tensor(average["mean"][t, b]), torch.tensor(average["std"][t, b]))
            k = torch.autograd.grad(torch.distributions.kl_divergence(slow, own).sum(), phi)[0].numpy()
            z = np.zeros(4)
            groups = [[0, 1], [2, 3]] if apart else [[0, 1, 2, 3]]
            for part in groups if learned else [[0, 1]]:
                excess = max(0.0, k[part] @ g[part] - config.trust_region)
                active += excess > 0
                z[part] = g[part] - excess / (k[part] @ k[part]) * k[part]
            weight = batch.importance_weights[b] / (shape[0] * shape[1])
            loss = loss - weight * (torch.tensor(z) * torch.cat([mean[t, b], std[t, b]])).sum()
            if not config.entropy_in_trust_region:
                loss = loss - weight * config.entropy_cost * Normal(mean[t, b], std[t, b]).entropy().sum()
            critic = (q_retrace[t, b] - q_taken[t, b]) ** 2 + (value_targets[t, b] - values[t, b]) ** 2
            loss = loss + weight * config.critic_cost * 0.5 * critic
    loss.backward()
    gradient = {
        name: torch.zeros_like(item) if item.grad is None else item.grad for name, item in networks.named_parameters()
    }
    return gradient, active


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        dataclasses.replace(CONFIG, entropy_cost=0.3),
        dataclasses.replace(CONFIG, entropy_cost=0.3, entropy_in_trust_region=False),
        dataclasses.replace(CONFIG, std="fixed"),
        dataclasses.replace(CONFIG, critic="not_centred"),
        dataclasses.replace(CONFIG, policy_target="q_retrace"),
    ],
    ids=["learned_std", "entropy", "entropy_outside", "fixed_std", "not_centred", "q_retrace"],
)
def test_it_is_its_literal_gradient(config):
    batch = double_batch()
    output, got = gradients(config, batch)
    expected, active = literal_gradients(config, batch)
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-8, atol=1e-9, msg=name)
    assert output.metrics["projected_fraction"].item() == pytest.approx(active / batch.valid.sum().item())
    assert 0.1 < active / batch.valid.sum() < 0.9


def test_an_advantage_with_a_torso_of_its_own_is_its_literal_gradient():
    config, batch = dataclasses.replace(CONFIG, separate_advantage=True), double_batch()
    _, got = gradients(config, batch, separate_critic=True)
    expected, _ = literal_gradients(config, batch, separate_critic=True)
    assert {name.partition(".")[0] for name in got} == {
        *("encoder", "policy_head", "critic_encoder", "value_head", "advantage_encoder", "advantage_head")
    }
    for name, value in expected.items():
        assert value.abs().sum() > 0, name
        torch.testing.assert_close(got[name], value, rtol=1e-8, atol=1e-9, msg=name)


@pytest.mark.parametrize("std", ["learned", "fixed"])
def test_from_state_values_it_is_its_literal_gradient(std):
    """Truncated importance sampling inside the trust region: V-trace has oracles of its own, the rest is row by row."""
    config = dataclasses.replace(CONFIG, critic="state_value", std=std, trust_region=0.05)
    batch = double_batch()
    output, got = gradients(config, batch)
    _, networks, targets = build(config)
    own = networks(batch.observations, None, None, batch.first, {})
    slow = targets[AVERAGE](batch.observations, None, None, batch.first, {}).policy
    mean, deviation, values = own.policy["mean"][:-1], own.policy["std"][:-1], own.values
    if std == "fixed":
        deviation = deviation.detach()
    ratios = Normal(mean, deviation).log_prob(batch.actions)
    ratios = (ratios - Normal(batch.mu["mean"], batch.mu["std"]).log_prob(batch.actions)).sum(-1).detach()
    rows = (batch.rewards, batch.discounts, values[:-1].detach(), values[-1].detach())
    vs, advantages = vtrace_targets(ratios, *rows, pg_rho_clip=1.5, lambda_=0.9, valid=batch.valid)
    loss, active = torch.zeros((), dtype=torch.float64), 0
    for t, b in batch.valid.nonzero().tolist():
        phi = torch.cat([mean[t, b], deviation[t, b]]).detach().requires_grad_()
        normal = Normal(phi[:2], phi[2:])
        moved = slice(0, 4) if std == "learned" else slice(0, 2)
        g = torch.autograd.grad(advantages[t, b] * normal.log_prob(batch.actions[t, b]).sum(), phi)[0][moved]
        kl = torch.distributions.kl_divergence(Normal(slow["mean"][t, b], slow["std"][t, b]), normal).sum()
        k = torch.autograd.grad(kl, phi)[0][moved]
        excess = max(0.0, (k @ g).item() - config.trust_region)
        active += excess > 0
        z = g - excess / (k @ k) * k
        weight = batch.importance_weights[b] / batch.valid.numel()
        loss = loss - weight * (z * torch.cat([mean[t, b], deviation[t, b]])[moved]).sum()
        loss = loss + weight * config.critic_cost * 0.5 * (vs[t, b] - values[t, b]) ** 2
    loss.backward()
    for name, item in networks.named_parameters():
        expected = torch.zeros_like(item) if item.grad is None else item.grad
        torch.testing.assert_close(got[name], expected, rtol=1e-8, atol=1e-9, msg=name)
    assert output.metrics["projected_fraction"].item() == pytest.approx(active / batch.valid.sum().item())
    assert 0.1 < active / batch.valid.sum() < 0.9


def test_the_divergence_from_the_behaviour_is_a_mean_over_valid_rows():
    batch = double_batch()
    output, _ = gradients(batch=batch)
    _, networks, _ = build()
    own = networks(batch.observations, None, None, batch.first, {}).policy
    kls = torch.distributions.kl_divergence(
        Normal(batch.mu["mean"], batch.mu["std"]), Normal(own["mean"][:-1], own["std"][:-1])
    ).sum(-1)
    assert output.metrics["kl_from_behaviour"].item() == pytest.approx(kls[batch.valid].mean().item(), rel=1e-6)


@pytest.mark.parametrize(
    ("critic", "unused"),
    [
        ("state_value", {"policy_target", "num_samples", "advantage_size", "separate_advantage"}),
        ("not_centred", {"num_samples"}),
    ],
)
def test_what_a_critic_does_not_use_is_said(critic, unused):
    more = {"num_samples": 7, "advantage_size": 32, "separate_advantage": True}
    config = AcerContinuousConfig(critic=critic, policy_target="q_retrace", **more)
    said = {problem.key for problem in config.warnings(NetworkConfig(separate_critic=True), "fifo")}
    assert {f"algorithm.{name.replace('_', '-')}" for name in unused} == said


def test_the_critic_has_a_step_size_of_its_own_where_it_has_a_torso_of_its_own():
    config = AcerContinuousConfig(critic_rate=3.0)
    algorithm, networks, _ = build(config, separate_critic=True)
    rates = {group.prefix: group.rate for group in algorithm.parameter_groups}
    of_critic = [name for name, _ in networks.named_parameters() if name.startswith(tuple(rates))]
    assert set(rates.values()) == {3.0}
    assert {name.split(".")[0] for name in of_critic} == {"critic_encoder", "value_head", "advantage_head"}
    assert not build(config)[0].parameter_groups
    assert not build(AcerContinuousConfig(), separate_critic=True)[0].parameter_groups
    without = build(dataclasses.replace(config, critic="state_value"), separate_critic=True)[0]
    assert {group.prefix for group in without.parameter_groups} == {"critic_encoder.", "value_head."}
    apart = dataclasses.replace(config, separate_advantage=True)
    groups = build(apart, separate_critic=True)[0].parameter_groups
    assert {group.prefix for group in groups} == {*rates, "advantage_encoder."}
    said = [problem.key for problem in apart.warnings(NetworkConfig(), "fifo")]
    assert said == ["algorithm.critic-rate", "algorithm.separate-advantage"]
    assert not config.warnings(NetworkConfig(separate_critic=True), "fifo")


@pytest.mark.parametrize("mistake", [{"root": 1.0}, {"apart": True}, {"opc_trace": 0.9}])
def test_the_batch_can_tell_the_mistakes(mistake):
    _, got = gradients()
    wrong, _ = literal_gradients(CONFIG, double_batch(), **mistake)
    assert any(not torch.allclose(got[name], value, rtol=1e-3, atol=1e-6) for name, value in wrong.items())


def test_known_targets():
    """Numbers of the small example in `test_retrace.py`, in three dimensions."""
    q, v = np.array([2.0, 0.5, 1.0])[:, None], np.array([1.4, -0.2, 2.0, 2.0])[:, None]
    rewards, rhos = np.array([1.0, -1.0, 0.5])[:, None], np.array([0.8, 0.375, 2 / 3])[:, None]
    rest = (v[1:], rewards, np.full((3, 1), 0.9))

    def shipped(log_rhos):
        return retrace_targets(*(torch.from_numpy(x) for x in (q, v[1:], log_rhos, *rest[1:])))[:, 0].tolist()

    def literal(traces):
        return backwards(q, *rest, traces, np.ones((3, 1), bool))[:, 0].tolist()

    ones = np.ones((3, 1))
    assert shipped(0 * ones) == pytest.approx([2.143, 1.97, 2.3]) == literal(ones)
    rooted = pytest.approx([1.678052, 1.822089, 2.3], abs=1e-6)
    assert shipped(np.log(rhos) / 3) == rooted == literal(np.minimum(1.0, rhos ** (1 / 3)))
    targets = np.minimum(1.0, rhos[:, 0]) * (shipped(np.log(rhos)) - q[:, 0]) + v[:-1, 0]
    assert targets.tolist() == pytest.approx([0.7476, 0.205, 2.866667], abs=1e-6)


@pytest.mark.parametrize("inside", [True, False])
def test_a_fixed_deviation_is_not_moved(inside):
    config = dataclasses.replace(CONFIG, std="fixed", entropy_cost=0.3, entropy_in_trust_region=inside)
    _, gradient = gradients(config)
    assert gradient["policy_head.log_std"].abs().sum() == 0
    assert gradient["policy_head.linear.weight"].abs().sum() > 0


def test_the_critics_loss_moves_no_policy_and_the_policys_no_critic():
    _, both = gradients(separate_critic=True)
    _, no_critic = gradients(dataclasses.replace(CONFIG, critic_cost=0.0), separate_critic=True)
    for name, value in both.items():
        if name.startswith(("critic_encoder", "value_head", "advantage_head")):
            assert value.abs().sum() > 0
            assert no_critic[name].abs().sum() == 0, name
        else:
            torch.testing.assert_close(value, no_critic[name])


def test_rows_without_a_transition_may_hold_anything():
    batch = double_batch()
    _, clean = gradients(batch=batch)
    rewards = torch.where(batch.valid, batch.rewards, float("nan"))
    mu = {name: torch.where(batch.valid.unsqueeze(-1), value, 0.0) for name, value in batch.mu.items()}
    output, dirty = gradients(batch=dataclasses.replace(batch, rewards=rewards, mu=mu))
    for name, value in clean.items():
        torch.testing.assert_close(dirty[name], value, msg=name)
    assert all(torch.isfinite(value) for value in output.metrics.values())


def test_nine_evaluations_in_three_calls():
    algorithm, networks, targets = build(AcerContinuousConfig())
    calls = []
    for module in (networks, networks.advantage_head, targets[AVERAGE]):
        module.register_forward_hook(
            lambda module, inputs, output: calls.append(output.numel() if torch.is_tensor(output) else 1)
        )
    algorithm.loss(networks, targets, double_batch(), {}, None)
    assert len(calls) == 3
    rows = double_batch().valid.numel()
    assert sum(1 if count == 1 else count // rows for count in calls) == 9


def test_a_rectifier_that_doubles_widths_fits_all_heads():
    output, gradient = gradients(activation="crelu")
    assert output.loss.isfinite()
    assert gradient["advantage_head.linear.weight"].shape == (1, 2 * CONFIG.advantage_size)


@pytest.mark.parametrize("actions", ["discrete", "multi_discrete"])
def test_other_actions_are_refused(actions):
    with pytest.raises(ValueError, match=r"acer_continuous needs Box actions, probe has .*; use laser or impala$"):
        AcerContinuousConfig().build(make_environment(ACTIONS[actions]), NetworkConfig())


def test_it_learns_from_the_replay_alone_and_says_what_does_not_fit():
    assert AcerContinuousConfig().num_online == 0
    (problem,) = find_problems(AcerContinuousConfig(replay_ratio=2.0))
    assert str(problem).startswith("replay-fraction: must be 0 beside replay-ratio 2")
    assert not list(find_problems(AcerContinuousConfig(replay_ratio=2.0, replay_fraction=0.0)))
