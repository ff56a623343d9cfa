"""Properties of the IMPALA and LASER losses, and the whole loss against a literal one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from literal_targets import literal_implied_kl, literal_vtrace
from random_batches import ACTIONS, make_batch, make_environment

from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.batch import ONLINE
from laser.networks.actor_critic import ActorCriticOutput
from laser.networks.config import NetworkConfig

DISCRETE = ACTIONS["discrete"]


def build(config, actions=DISCRETE, dtype=torch.float64):
    torch.manual_seed(0)
    algorithm = config.build(make_environment(actions), NetworkConfig(hidden_sizes=(16,)))
    networks = algorithm.make_networks().to(dtype)
    with torch.no_grad():  # Away from the near-uniform start, so that ratios and rejections are of all kinds.
        networks.policy_head.linear.weight.mul_(100.0)
    return algorithm, networks


def evaluate(config, batch, actions=DISCRETE, dtype=torch.float64):
    algorithm, networks = build(config, actions, dtype)
    output = algorithm.loss(networks, {}, batch, {}, torch.Generator().manual_seed(7))
    output.loss.backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in networks.parameters()])
    return output, gradient


def double_batch(actions=DISCRETE, **options):
    return make_batch(actions, dtype=torch.float64, **options)


def literal_gradient(config, batch, *, accept_rule=None, entropy_rows=None):
    """Gradient of the loss as a Python loop over rows whose targets come from the literal sums."""
    _, networks = build(config)
    rows = batch.rewards.shape
    output = networks(batch.observations, None, None, batch.first, {})
    pi = torch.softmax(output.policy["logits"][:-1], -1)
    mu = torch.softmax(batch.mu["logits"], -1)
    taken = batch.actions.unsqueeze(-1)
    rhos = (pi.gather(-1, taken) / mu.gather(-1, taken)).squeeze(-1).detach().numpy()
    kl = literal_implied_kl(pi.detach().numpy(), mu.numpy(), config.rho_clip)
    of_ratios = isinstance(config, LaserConfig) and config.rejection == "second_moment"
    accept = np.ones(rows, bool) if accept_rule is None else accept_rule(np.log(rhos) if of_ratios else kl)
    weight = accept & batch.valid.numpy()
    rewards = batch.rewards.numpy()
    if config.reward_transform == "clip":
        rewards = np.clip(rewards, -1, 1)
    rewards = rewards * config.reward_scale
    values = output.values
    vs, advantages = literal_vtrace(
        rhos,
        rewards,
        batch.discounts.numpy(),
        values[:-1].detach().numpy(),
        values[-1].detach().numpy(),
        config.rho_clip,
        config.c_clip,
        config.pg_rho_clip,
        config.trace_lambda,
        config.lambda_advantages,
        weight,
    )
    scale = 1.0 / rows[1] if config.reduction == "mean_per_column" else 1.0
    if config.normalize_advantages == "standardize":
        advantages = advantages - advantages[weight].mean()
    if config.normalize_advantages != "off":
        advantages = advantages / np.sqrt((advantages[weight] ** 2).mean())
    loss = torch.zeros((), dtype=torch.float64)
    for t in range(rows[0]):
        for b in range(rows[1]):
            importance = scale * batch.importance_weights[b]
            if weight[t, b]:
                moved = rhos[t, b] if advantages[t, b] > 0 else 1.0 / rhos[t, b]
                if moved <= 1.0 + config.policy_clip:
                    loss = loss - importance * advantages[t, b] * pi[t, b, batch.actions[t, b]].log()
                loss = loss + importance * config.baseline_cost * 0.5 * (vs[t, b] - values[t, b]) ** 2
            if entropy_rows[t, b]:
                loss = loss + importance * config.entropy_cost * (pi[t, b] * pi[t, b].log()).sum()
    loss.backward()
    return loss.item(), torch.cat([parameter.grad.flatten() for parameter in networks.parameters()]), accept


IMPALAS = [
    ImpalaConfig(),
    ImpalaConfig(reduction="mean_per_column", entropy_cost=0.3, baseline_cost=0.7),
    ImpalaConfig(rho_clip=2.0, c_clip=1.5, pg_rho_clip=0.8, trace_lambda=0.9, reward_transform="clip"),
    ImpalaConfig(trace_lambda=0.7, lambda_advantages=True),
    ImpalaConfig(normalize_advantages="scale"),
    ImpalaConfig(normalize_advantages="scale", policy_clip=0.3),
    ImpalaConfig(normalize_advantages="standardize", reward_scale=0.3),
]


def test_no_threshold_accepts_everything_whatever_form_it_has():
    """A compiled loss takes the threshold from its schedule, as a tensor."""
    algorithm, _ = build(LaserConfig(trust_region_threshold=float("inf")))
    batch = make_batch(ACTIONS["discrete"])
    certain = {"logits": torch.tensor([0.0, -torch.inf, -torch.inf]).expand_as(batch.mu["logits"])}
    batch = dataclasses.replace(batch, mu=certain)
    pi = {"logits": certain["logits"].flip(-1)}
    log_rhos = torch.zeros(batch.shape)
    assert algorithm._accept(pi, log_rhos, batch, None, {})[0] is None
    accepted, *_ = algorithm._accept(pi, log_rhos, batch, None, {"trust_region_threshold": torch.tensor(torch.inf)})
    assert accepted.all()
    assert not algorithm._accept(pi, log_rhos, batch, None, {"trust_region_threshold": torch.tensor(1.0)})[0].any()


def test_the_kl_of_each_item_adds_up_to_the_mean_over_the_batch():
    algorithm, networks = build(LaserConfig())
    batch = make_batch(ACTIONS["discrete"])
    output = algorithm.loss(networks, {}, batch, {}, torch.Generator().manual_seed(0))
    kl = output.per_step["kl"]
    assert kl.shape == (1, batch.shape[1])
    assert (kl > 0).any()
    assert (kl.sum() / batch.valid.sum()).item() == pytest.approx(output.metrics["implied_kl"].item(), rel=1e-5)
    assert set(algorithm.per_step) == set(output.per_step)
    assert "kl" not in build(LaserConfig(rejection="second_moment"))[0].per_step


@pytest.mark.parametrize(
    "config", IMPALAS, ids=["default", "mean", "clips", "lambda", "scaled", "clipped", "standardized"]
)
def test_impala_is_its_literal_loss(config):
    batch = dataclasses.replace(double_batch(), importance_weights=torch.linspace(0.2, 1.0, 8, dtype=torch.float64))
    output, gradient = evaluate(config, batch)
    loss, expected, _ = literal_gradient(config, batch, entropy_rows=batch.valid)
    # Normalised advantages are divided by their size + 1e-8.
    tolerance = 1e-7 if config.normalize_advantages != "off" else 1e-10
    assert output.loss.item() == pytest.approx(loss, rel=tolerance)
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=tolerance)


@pytest.mark.parametrize("entropy_on", ["fresh", "all"])
def test_laser_is_its_literal_loss(entropy_on):
    config, batch = LaserConfig(entropy_on=entropy_on, entropy_cost=0.3), double_batch()
    output, gradient = evaluate(config, batch)
    entropy_rows = batch.valid & (batch.online | (entropy_on == "all"))
    loss, expected, accept = literal_gradient(
        config, batch, accept_rule=lambda kl: kl < config.trust_region_threshold, entropy_rows=entropy_rows
    )
    assert 0.2 < accept.mean() < 0.8, "the interesting branch was not reached"
    assert output.loss.item() == pytest.approx(loss, rel=1e-10)
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-9)


def test_laser_with_a_second_moment_is_its_literal_loss():
    config, batch = LaserConfig(rejection="second_moment", second_moment_threshold=0.2), double_batch()
    valid = batch.valid.numpy()

    def farthest_left_out(log_rhos):
        accept = valid.copy()
        while (log_rhos[accept] ** 2).mean() > config.second_moment_threshold:
            accept &= log_rhos**2 < (log_rhos[accept] ** 2).max()
        return accept

    loss, expected, accept = literal_gradient(
        config, batch, accept_rule=farthest_left_out, entropy_rows=batch.valid & batch.online
    )
    assert 0.2 < accept[valid].mean() < 0.8, "the interesting branch was not reached"
    output, gradient = evaluate(config, batch)
    assert output.loss.item() == pytest.approx(loss, rel=1e-10)
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "mistake",
    [
        {"accept_rule": None},
        {"accept_rule": lambda kl: kl > 0.1},  # the sign as printed after equation 7
        {"entropy_rows": "all"},
    ],
    ids=["no_trust_region", "reversed", "entropy_on_all"],
)
def test_the_batch_can_tell_the_mistakes(mistake):
    config, batch = LaserConfig(entropy_cost=0.3), double_batch()
    right = {"accept_rule": lambda kl: kl < 0.1, "entropy_rows": batch.valid & batch.online}
    wrong = {**right, **mistake}
    if isinstance(wrong["entropy_rows"], str):
        wrong["entropy_rows"] = batch.valid
    output, _ = evaluate(config, batch)
    assert output.loss.item() != pytest.approx(literal_gradient(config, batch, **wrong)[0], rel=1e-3)


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_a_threshold_of_zero_rejects_everything(actions):
    batch = double_batch(actions)
    output, gradient = evaluate(LaserConfig(trust_region_threshold=0.0, entropy_cost=0.0), batch, actions)
    assert output.loss.item() == 0.0
    assert not gradient.any()
    assert output.metrics["accept_fraction_online"] == 0.0


def test_a_threshold_of_zero_rejects_on_policy_rows_too():
    algorithm, networks = build(LaserConfig(trust_region_threshold=0.0, entropy_cost=0.0))
    batch = double_batch()
    with torch.no_grad():
        logits = networks(batch.observations, None, None, batch.first, {}).policy["logits"][:-1]
    output = algorithm.loss(networks, {}, dataclasses.replace(batch, mu={"logits": logits}), {}, None)
    assert output.loss.item() == 0.0


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_without_a_trust_region_laser_is_impala(actions):
    batch = double_batch(actions)
    laser = evaluate(LaserConfig(trust_region_threshold=float("inf"), entropy_on="all"), batch, actions)
    impala = evaluate(ImpalaConfig(), batch, actions)
    assert torch.equal(laser[0].loss, impala[0].loss)
    assert torch.equal(laser[1], impala[1])


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_columns_may_be_permuted(actions):
    batch = double_batch(actions)
    order = torch.tensor([3, 1, 7, 0, 5, 2, 6, 4])
    first_axis = {"last_action", "last_reward", "importance_weights"}

    def permute(name, value):
        if isinstance(value, dict):
            return {key: item[:, order] for key, item in value.items()}
        return value[order] if name in first_axis else value[:, order]

    permuted = dataclasses.replace(batch, **{name: permute(name, value) for name, value in vars(batch).items()})
    before, after = (evaluate(LaserConfig(), each, actions) for each in (batch, permuted))
    torch.testing.assert_close(before[0].loss, after[0].loss, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(before[1], after[1], rtol=1e-9, atol=1e-11)


def test_targets_and_masks_carry_no_gradient():
    """The gradient with respect to the outputs is -w adv dlogpi and w c (V - vs), nothing else."""
    batch = double_batch()
    config = LaserConfig(entropy_cost=0.0, trust_region_threshold=float("inf"))
    algorithm, networks = build(config)
    with torch.no_grad():
        output = networks(batch.observations, None, None, batch.first, {})
    values = output.values.clone().requires_grad_()
    logits = output.policy["logits"].clone().requires_grad_()
    leaves = ActorCriticOutput({"logits": logits}, values)
    algorithm._loss(networks, leaves, None, batch, None, {}).loss.backward()
    policy = {"logits": logits[:-1].detach()}
    assert not values.grad[-1].any(), "the bootstrap value only enters targets"
    rhos = torch.exp(
        algorithm.distribution.log_prob(policy, batch.actions)
        - algorithm.distribution.log_prob(batch.mu, batch.actions)
    ).detach()
    data = (rhos, batch.rewards, batch.discounts, output.values[:-1], output.values[-1])
    vs, _ = literal_vtrace(*(x.numpy() for x in data), weight=batch.valid.numpy())
    expected = batch.valid * 0.5 * (output.values[:-1] - torch.tensor(vs))
    torch.testing.assert_close(values.grad[:-1], expected)


def test_entropy_counts_on_fresh_columns_only():
    batch = double_batch()
    config = LaserConfig(trust_region_threshold=0.0, entropy_cost=1.0)
    replayed = dataclasses.replace(batch, source=torch.full_like(batch.source, 1))
    assert evaluate(config, replayed)[0].loss.item() == 0.0
    fresh = dataclasses.replace(batch, source=torch.full_like(batch.source, ONLINE))
    output, _ = evaluate(config, fresh)
    assert output.loss.item() == pytest.approx(-(output.metrics["entropy"] * batch.valid.sum()).item())
    assert output.metrics["entropy"] > 0


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("config", [ImpalaConfig(), LaserConfig()], ids=["impala", "laser"])
def test_invalid_rows_change_nothing(actions, config):
    batch = double_batch(actions)
    junk = torch.where(batch.valid, batch.rewards, 1e6)
    mu = {
        name: torch.where(batch.valid.unsqueeze(-1), value, 0.0 if name == "std" else 37.0)
        for name, value in batch.mu.items()
    }
    before, after = (
        evaluate(config, each, actions) for each in (batch, dataclasses.replace(batch, rewards=junk, mu=mu))
    )
    assert torch.equal(before[0].loss, after[0].loss)
    assert torch.equal(before[1], after[1])
    for name, value in after[0].metrics.items():
        assert value.isfinite(), name
        assert torch.equal(value, before[0].metrics[name]), name


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_an_exploring_behaviour_that_excludes_nothing_needed_gives_finite_metrics(actions):
    output, gradient = evaluate(LaserConfig(), make_batch(actions, mu_scale=50.0), actions, torch.float32)
    assert gradient.isfinite().all()
    assert all(value.isfinite() for value in output.metrics.values())


def test_the_loss_changes_nothing_it_is_given():
    batch = double_batch()
    algorithm, networks = build(LaserConfig())
    before = {name: parameter.clone() for name, parameter in networks.state_dict().items()}
    tensors = {name: value.clone() for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    algorithm.loss(networks, {}, batch, {}, None)
    assert all(torch.equal(networks.state_dict()[name], value) for name, value in before.items())
    assert all(torch.equal(getattr(batch, name), value) for name, value in tensors.items())


@pytest.mark.slow
@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("config", [ImpalaConfig(), LaserConfig(num_kl_samples=10_000)], ids=["impala", "laser"])
def test_it_compiles_whole(actions, config):
    algorithm, networks = build(config, actions, torch.float32)
    batch = make_batch(actions)
    expected = algorithm.loss(networks, {}, batch, {}, None)
    got = torch.compile(algorithm.loss, fullgraph=True, backend="aot_eager")(networks, {}, batch, {}, None)
    if "implied_kl" not in expected.metrics or algorithm.distribution.noise_shape(64) is None:  # else noise differs
        torch.testing.assert_close(got.loss, expected.loss, rtol=1e-4, atol=1e-3)
    got.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in networks.parameters())


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_autocast_reaches_torsos_only(actions):
    """With heads alone there is nothing to round: ratios, KLs and sums must not change at all."""
    batch = make_batch(actions)
    algorithm = LaserConfig().build(make_environment(actions), NetworkConfig(hidden_sizes=()))
    networks = algorithm.make_networks()
    plain = algorithm.loss(networks, {}, batch, {}, torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = algorithm.loss(networks, {}, batch, {}, torch.Generator().manual_seed(0))
    assert torch.equal(plain.loss, mixed.loss)
    assert all(torch.equal(value, mixed.metrics[name]) for name, value in plain.metrics.items())


def test_a_behaviour_that_excludes_actions_is_rejected_and_counted():
    batch = double_batch()
    # Column 0 could not have taken one of the actions it did not take: KL(pi || pi~) is infinite there.
    untaken = torch.nn.functional.one_hot((batch.actions + 1) % 3, 3).bool()
    untaken[:, 1:] = False
    batch = dataclasses.replace(batch, mu={"logits": batch.mu["logits"].masked_fill(untaken, -torch.inf)})
    output, gradient = evaluate(LaserConfig(trust_region_threshold=1e6), batch)
    assert gradient.isfinite().all()
    assert all(value.isfinite() for value in output.metrics.values())
    online = batch.valid & batch.online
    expected = online[:, 1:].sum() / online.sum()
    torch.testing.assert_close(output.metrics["accept_fraction_online"].float(), expected)


@pytest.mark.parametrize("threshold", [float("inf"), 0.1])
def test_priorities_are_the_unrolls_mean_critic_losses(threshold):
    batch = double_batch()
    output, _ = evaluate(LaserConfig(trust_region_threshold=threshold, entropy_cost=0.0), batch)
    priorities = output.per_step["priority"].detach()
    assert priorities.shape == (1, batch.shape[1])
    # The value loss is the sum of all columns' critic losses.
    torch.testing.assert_close((priorities * batch.valid.sum(0)).sum(), output.metrics["value_loss"])


def test_the_priority_of_an_unroll_is_a_mean_over_its_steps_alone():
    """Column 0 has one step, column 1 none at all."""
    batch = double_batch()
    valid = batch.valid.clone()
    valid[1:, 0] = valid[:, 1] = False
    valid[0, 0] = True
    batch = dataclasses.replace(batch, valid=valid, importance_weights=torch.eye(batch.shape[1])[0].double())
    output, _ = evaluate(ImpalaConfig(entropy_cost=0.0), batch)
    priorities = output.per_step["priority"].detach()[0]
    # The weights leave column 0 as the only one in the value loss.
    torch.testing.assert_close(priorities[0], output.metrics["value_loss"])
    assert priorities[1] == 0.0


@pytest.mark.parametrize(("normalize", "advantage"), [("scale", 1.0), ("standardize", 0.0)])
def test_the_advantage_of_a_single_row_is_its_own_scale_and_its_own_mean(normalize, advantage):
    batch = double_batch()
    only = torch.zeros_like(batch.valid)
    only[3, 2] = True
    batch = dataclasses.replace(batch, valid=only)
    config = ImpalaConfig(normalize_advantages=normalize)
    output, _ = evaluate(config, batch)
    _, networks = build(config)
    with torch.no_grad():
        logits = networks(batch.observations, None, None, batch.first, {}).policy["logits"][3, 2]
    log_pi = logits.log_softmax(-1)[batch.actions[3, 2]]
    assert abs(output.metrics["pg_loss"].item()) == pytest.approx(advantage * -log_pi.item(), abs=1e-6)
