"""ReF-ER on IMPALA's and LASER's losses, with discrete and continuous actions."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from literal_targets import literal_vtrace
from random_batches import ACTIONS, make_batch, make_environment

from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.refer import ReferConfig, bounded_rhos
from laser.networks.config import NetworkConfig

REFER = ReferConfig()


def build(config, kind="discrete"):
    torch.manual_seed(0)
    algorithm = config.build(make_environment(ACTIONS[kind]), NetworkConfig(hidden_sizes=(16,)))
    networks = algorithm.make_networks().double()
    with torch.no_grad():
        networks.policy_head.linear.weight.mul_(100.0)
    return algorithm, networks


def run(config, batch, beta, c_max, kind="discrete"):
    algorithm, networks = build(config, kind)
    if config.refer.enabled:
        networks.refer.beta.fill_(beta)
        networks.refer.c_max.fill_(c_max)
    output = algorithm.loss(networks, {}, batch, {}, torch.Generator().manual_seed(7))
    output.loss.backward()
    return output, torch.cat([item.grad.flatten() for item in networks.parameters()])


def literal(config, batch, beta, c_max):
    _, networks = build(config)
    output = networks(batch.observations, None, None, batch.first, {})
    log_pi = torch.log_softmax(output.policy["logits"][:-1], -1)
    log_mu = torch.log_softmax(batch.mu["logits"], -1)
    taken = batch.actions.unsqueeze(-1)
    rhos = (log_pi - log_mu).gather(-1, taken).squeeze(-1).exp().detach().numpy()
    values, valid = output.values, batch.valid.numpy()
    targets = (batch.rewards, batch.discounts, values[:-1].detach(), values[-1].detach())
    vs, advantages = literal_vtrace(rhos, *(part.numpy() for part in targets), 1.0, 1.0, 1.0, 1.0, weight=valid)
    loss, num_near = torch.zeros((), dtype=torch.float64), 0
    for t, b in np.argwhere(valid):
        near = 1 / c_max < rhos[t, b] < c_max
        num_near += near
        if near:
            loss = loss - beta * advantages[t, b] * log_pi[t, b, batch.actions[t, b]]
            loss = loss + beta * config.baseline_cost * 0.5 * (vs[t, b] - values[t, b]) ** 2
            loss = loss + beta * config.entropy_cost * (log_pi[t, b].exp() * log_pi[t, b]).sum()
        loss = loss + (1 - beta) * (log_mu[t, b].exp() * (log_mu[t, b] - log_pi[t, b])).sum()
    loss.backward()
    gradient = torch.cat([item.grad.flatten() for item in networks.parameters()])
    return loss.item(), gradient, num_near / valid.sum(), rhos


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_it_is_the_literal_mixture(beta):
    config = ImpalaConfig(refer=REFER, entropy_cost=0.1)
    batch = make_batch(ACTIONS["discrete"], dtype=torch.float64)
    output, gradient = run(config, batch, beta, 2.0)
    loss, expected, near_fraction, rhos = literal(config, batch, beta, 2.0)
    assert 0.2 < near_fraction < 0.8
    assert output.loss.item() == pytest.approx(loss, rel=1e-9)
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-9)
    written = output.column_writes["rho"].numpy()
    valid = batch.valid.numpy()
    np.testing.assert_allclose(written[valid], np.clip(rhos, np.exp(-7), np.exp(7))[valid], rtol=1e-9)
    assert (written[~valid] == 1.0).all()
    wrong = literal(config, batch, beta, 1e9)[0]
    assert beta == 0.0 or wrong != pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("kind", ["discrete", "multi_discrete", "continuous"])
@pytest.mark.parametrize("config", [ImpalaConfig(), LaserConfig()], ids=["impala", "laser"])
def test_with_beta_one_and_no_bound_it_changes_nothing(config, kind):
    batch = make_batch(ACTIONS[kind], dtype=torch.float64)
    plain, gradient = run(config, batch, 1.0, np.inf, kind)
    mixed, same = run(dataclasses.replace(config, refer=REFER), batch, 1.0, np.inf, kind)
    assert plain.loss.item() == mixed.loss.item()
    assert torch.equal(gradient, same)


@pytest.mark.parametrize(
    "config",
    [
        ImpalaConfig(refer=REFER, popart=True),
        ImpalaConfig(refer=REFER, normalize_advantages="standardize"),
        LaserConfig(refer=REFER, normalize_advantages="scale", trust_region_threshold=np.inf),
    ],
    ids=["popart", "standardize", "scale"],
)
def test_rewards_of_a_column_that_is_far_everywhere_change_nothing(config):
    batch = make_batch(ACTIONS["discrete"], dtype=torch.float64)
    logits = batch.mu["logits"].clone()
    # What was taken there was almost certain: pi / mu is far below 1 / c_max.
    logits[:, 2] = -30.0
    logits[:, 2].scatter_(-1, batch.actions[:, 2].unsqueeze(-1), 30.0)
    batch = dataclasses.replace(batch, mu={"logits": logits})
    others = batch.rewards.clone()
    others[:, 2] *= 100.0
    gradients = [
        run(config, dataclasses.replace(batch, rewards=rewards), 1.0, 1.2)[1] for rewards in (batch.rewards, others)
    ]
    assert gradients[0].abs().max() > 0.0
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=0.0)
    near = others.clone()
    near[:, 3] *= 100.0
    assert not torch.equal(gradients[0], run(config, dataclasses.replace(batch, rewards=near), 1.0, 1.2)[1])


def test_ratios_that_the_replay_keeps_are_finite_whatever_the_log_ratios_are():
    # NaN: both policies exclude the action, -inf - -inf. Such a step is as far from the policy as can be.
    log_rhos = torch.tensor([math.nan, -math.inf, math.inf, -8.0, 8.0, 0.0, 0.5], dtype=torch.float64)
    expected = [math.exp(each) for each in (-7.0, -7.0, 7.0, -7.0, 7.0, 0.0, 0.5)]
    assert bounded_rhos(log_rhos).tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("refer", "remover", "keys"),
    [
        (ReferConfig(), "far_policy", []),
        (ReferConfig(), "fifo", ["replay.remover"]),
        (ReferConfig(enabled=False), "fifo", []),
        (ReferConfig(enabled=False), "far_policy", []),
    ],
)
def test_another_remover_than_refers_own_is_warned_of(refer, remover, keys):
    assert [problem.key for problem in refer.warnings(remover)] == keys
