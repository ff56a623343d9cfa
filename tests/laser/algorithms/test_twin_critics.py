"""SAC and TD3: targets and gradients written out step by step in float64, and what must not reach what."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, NUM_INPUTS, make_batch, make_environment
from torch import nn

from laser.algorithms.base import ActInput, is_due
from laser.algorithms.sac import SacConfig
from laser.algorithms.td3 import Td3Config
from laser.algorithms.twin_critics import climbed
from laser.networks.config import NetworkConfig
from laser.networks.mlp import ACTIVATIONS
from laser.specs import EnvironmentSpec, FramesSpec, VectorSpec
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.experience.collate import example_batch
from learner.updating.factory import make_updater

CONTINUOUS = ACTIONS["continuous"]
NETWORK = NetworkConfig(hidden_sizes=(16, 8), activation="relu")
BOTH = {"sac": SacConfig(), "td3": Td3Config()}
NUM = 24


def build(config):
    """Return an algorithm, its networks and target networks that differ, in float64, and a batch of single steps."""
    torch.manual_seed(1)
    algorithm = config.build(make_environment(CONTINUOUS), NETWORK)
    networks, slow = algorithm.make_networks().double(), algorithm.make_networks().double()
    with torch.no_grad():
        for item in [*networks.parameters(), *slow.parameters()]:
            item.add_(0.3 * torch.randn_like(item))
    batch = make_batch(CONTINUOUS, num_rows=1, num_columns=NUM, dtype=torch.float64)
    weights = torch.rand(NUM, generator=torch.Generator().manual_seed(5)).double() + 0.5
    assert 0 < (batch.discounts == 0).sum() < NUM
    return algorithm, networks, slow.requires_grad_(False), dataclasses.replace(batch, importance_weights=weights)


def run(algorithm, networks, slow, batch, schedule=None):
    networks.zero_grad()
    generator = torch.Generator().manual_seed(3)
    output = algorithm.loss(networks, {"slow": slow}, batch, schedule or {}, generator)
    output.loss.backward()
    return output, {name: item.grad.clone() for name, item in networks.named_parameters() if item.grad is not None}


def draws():
    """Return the standard normal numbers that a loss draws, [2, NUM, 2]."""
    generator = torch.Generator().manual_seed(3)
    return torch.stack([torch.randn(NUM, 2, generator=generator, dtype=torch.float64) for _ in range(2)])


def row(batch, time, column):
    return {name: value[time, column].unsqueeze(0) for name, value in batch.observations.items()}


def gradients_of(loss, networks, prefix):
    named = [(name, item) for name, item in networks.named_parameters() if name.startswith(prefix)]
    found = torch.autograd.grad(loss, [item for _, item in named], retain_graph=True)
    return dict(zip((name for name, _ in named), found, strict=True))


def assert_same(got, expected):
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name].numpy(), value.numpy(), rtol=1e-9, atol=1e-11, err_msg=name)


def literal_sac_step(networks, state, normal):
    """Return an action and its log density, from the density's change of variables."""
    outputs = networks.actor(state)[0]
    action, log_prob = [], 0.0
    for i in range(2):
        mean, log_std = outputs[i], outputs[2 + i].clamp(-20.0, 2.0)
        u = mean + log_std.exp() * normal[i]
        action.append(torch.tanh(u))
        # The slope of tanh is 1 / cosh^2.
        log_prob = log_prob - 0.5 * normal[i] ** 2 - log_std - 0.5 * math.log(2 * math.pi) + 2 * torch.cosh(u).log()
    return torch.stack(action).unsqueeze(0), log_prob


def near_the_log(batch, policy, drawn, clone_cost):
    """Return the policy's loss with TD3+BC's term: over mean |Q(s, b)|, plus the squared distance of b from a."""
    sizes = [abs(q) for q, _ in drawn]
    apart = [((b[0] - batch.actions[0, i]) ** 2).sum() / 2 for i, (_, b) in enumerate(drawn)]
    return policy / (sum(sizes) / NUM) + clone_cost * sum(apart) / NUM if clone_cost else policy


@pytest.mark.parametrize("clone_cost", [0.0, 0.4])
def test_sacs_gradient_is_the_papers(clone_cost):
    algorithm, networks, slow, batch = build(SacConfig(temperature=0.3, clone_cost=clone_cost))
    output, got = run(algorithm, networks, slow, batch)
    (next_normal, normal), alpha = draws(), networks.log_temperature.exp().item()
    assert alpha != 1.0
    critics, policy, temperature, entropies, drawn = 0.0, 0.0, 0.0, [], []
    for i in range(NUM):
        with torch.no_grad():
            a, log_prob = literal_sac_step(networks, row(batch, 1, i), next_normal[i])
            q1, q2 = slow.critics(row(batch, 1, i), a)[:, 0].tolist()
            soft = min(q1, q2) - alpha * log_prob.item()
            y = batch.rewards[0, i].item() + batch.discounts[0, i].item() * soft
        values = networks.critics(row(batch, 0, i), batch.actions[0, i].unsqueeze(0))[:, 0]
        critics = critics + batch.importance_weights[i] * 0.5 * ((y - values[0]) ** 2 + (y - values[1]) ** 2) / NUM
        assert output.per_step["td_error"][0, i].item() == pytest.approx(y - values[0].item(), rel=1e-9)
        assert output.per_step["q"][0, i].item() == pytest.approx(values[0].item(), rel=1e-9)
        b, log_prob = literal_sac_step(networks, row(batch, 0, i), normal[i])
        q1, q2 = networks.critics(row(batch, 0, i), b)[:, 0]
        policy = policy + (alpha * log_prob - torch.minimum(q1, q2)) / NUM
        drawn.append((torch.minimum(q1, q2).item(), b))
        temperature = temperature - networks.log_temperature * (log_prob.item() - 2.0) / NUM
        entropies.append(-log_prob.item())
    policy = near_the_log(batch, policy, drawn, clone_cost)
    assert_same(
        got,
        gradients_of(critics, networks, "critics")
        | gradients_of(policy, networks, "actor")
        | gradients_of(temperature, networks, "log_temperature"),
    )
    assert output.metrics["entropy"].item() == pytest.approx(np.mean(entropies), rel=1e-9)
    assert output.metrics["temperature"].item() == pytest.approx(alpha)


@pytest.mark.parametrize(("wanted", "sign"), [(-50.0, 1), (50.0, -1)])
def test_a_policy_with_too_much_entropy_lowers_the_temperature(wanted, sign):
    algorithm, networks, slow, batch = build(SacConfig(entropy_per_dimension=wanted))
    assert np.sign(run(algorithm, networks, slow, batch)[1]["log_temperature"].item()) == sign


def test_a_fixed_temperature_has_no_gradient():
    assert "log_temperature" not in run(*build(SacConfig(learn_temperature=False)))[1]


@pytest.mark.parametrize(("due", "clone_cost"), [(True, 0.0), (True, 0.4), (False, 0.4)])
def test_td3s_gradient_is_the_papers(due, clone_cost):
    algorithm, networks, slow, batch = build(Td3Config(target_noise=0.6, target_noise_clip=0.5, clone_cost=clone_cost))
    output, got = run(algorithm, networks, slow, batch, {"due": {"actor.": due}})
    noise, cut, edged, critics, policy, drawn = 0.6 * draws()[0], 0, 0, 0.0, 0.0, []
    for i in range(NUM):
        a = slow.actor(row(batch, 1, i))[0].tanh()
        for k in range(2):
            cut += abs(noise[i, k].item()) > 0.5
            a[k] += max(-0.5, min(0.5, noise[i, k].item()))
            edged += abs(a[k].item()) > 1
            a[k] = max(-1.0, min(1.0, a[k].item()))
        y = batch.rewards[0, i] + batch.discounts[0, i] * slow.critics(row(batch, 1, i), a.unsqueeze(0)).min()
        values = networks.critics(row(batch, 0, i), batch.actions[0, i].unsqueeze(0))[:, 0]
        critics = critics + batch.importance_weights[i] * 0.5 * ((y - values) ** 2).sum() / NUM
        assert output.per_step["td_error"][0, i].item() == pytest.approx((y - values[0]).item(), rel=1e-9)
        b = networks.actor(row(batch, 0, i)).tanh()
        drawn.append((networks.critics(row(batch, 0, i), b)[0, 0].item(), b))
        policy = policy - networks.critics(row(batch, 0, i), b)[0, 0] / NUM
    assert cut > 3
    assert edged > 3
    policy = near_the_log(batch, policy, drawn, clone_cost)
    expected = gradients_of(critics, networks, "critics")
    assert_same(got, expected | gradients_of(policy, networks, "actor") if due else expected)
    assert ("q_of_policy" in output.metrics) == due


@pytest.mark.parametrize("name", BOTH)
def test_only_critics_are_weighted_and_only_by_the_draw(name):
    algorithm, networks, slow, batch = build(BOTH[name])
    one = run(algorithm, networks, slow, batch)[1]
    doubled = dataclasses.replace(batch, importance_weights=2.0 * batch.importance_weights)
    other = run(algorithm, networks, slow, doubled)[1]
    for key, value in one.items():
        torch.testing.assert_close(other[key], (2.0 if key.startswith("critics") else 1.0) * value)


@pytest.mark.parametrize("name", BOTH)
def test_the_policys_loss_does_not_reach_the_critics(name):
    algorithm, networks, slow, batch = build(BOTH[name])
    unweighted = dataclasses.replace(batch, importance_weights=torch.zeros_like(batch.importance_weights))
    gradient = run(algorithm, networks, slow, unweighted)[1]
    assert all((value == 0).all() == key.startswith("critics") for key, value in gradient.items())


def test_the_slopes_that_the_policy_climbs_are_not_rounded_to_bfloat16():
    _, networks, _, _ = build(BOTH["sac"])
    critics, states = networks.critics.float(), {"observation": torch.randn(NUM, NUM_INPUTS)}
    actions = torch.zeros(NUM, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (slopes,) = torch.autograd.grad(climbed(critics, states, actions).sum(), actions)
    assert (slopes != slopes.bfloat16()).float().mean() > 0.9


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_slopes_are_those_of_the_smaller_critic_whatever_the_activation(activation):
    torch.manual_seed(1)
    network = dataclasses.replace(NETWORK, activation=activation)
    critics = BOTH["sac"].build(make_environment(CONTINUOUS), network).make_networks().critics.double()
    states = {"observation": torch.randn(NUM, NUM_INPUTS, dtype=torch.float64)}
    actions = torch.randn(NUM, 2, dtype=torch.float64).requires_grad_()
    values = critics(states, actions).amin(0)
    with_slopes = climbed(critics, states, actions)
    torch.testing.assert_close(with_slopes, values)
    slopes, expected = (torch.autograd.grad(found.sum(), actions)[0] for found in (with_slopes, values))
    torch.testing.assert_close(slopes, expected)


@pytest.mark.parametrize("name", BOTH)
def test_what_follows_a_termination_does_not_matter_and_what_follows_a_truncation_does(name):
    algorithm, networks, slow, batch = build(BOTH[name])
    before = run(algorithm, networks, slow, batch)[0].per_step["td_error"][0]
    batch.observations["observation"][1] += 1.0
    changed = (run(algorithm, networks, slow, batch)[0].per_step["td_error"][0] - before).abs() > 1e-9
    assert (changed == (batch.discounts[0] != 0)).all()


def make_step(config, **options):
    algorithm = config.build(make_environment(CONTINUOUS), NETWORK)
    spec = UnrollSpec(1, algorithm.environment, algorithm.behaviour)
    networks = algorithm.seeded_networks(0)
    return make_updater(algorithm, networks, spec, LearnerConfig(compile="off", **options), torch.device("cpu"), 0)


def float_batch():
    return make_batch(CONTINUOUS, num_rows=1, num_columns=NUM)


def parts_of(step):
    target = dict(step.state.targets["slow"].networks.named_parameters())
    groups = {
        "actor": [item for name, item in step.state.networks.named_parameters() if name.startswith("actor")],
        "critics": [item for name, item in step.state.networks.named_parameters() if name.startswith("critics")],
        "slow actor": [item for name, item in target.items() if name.startswith("actor")],
        "slow critics": [item for name, item in target.items() if name.startswith("critics")],
    }
    return {name: torch.cat([item.detach().flatten() for item in items]) for name, items in groups.items()}


def test_policy_and_slow_copies_move_with_every_second_update():
    step = make_step(Td3Config())
    for number in range(1, 7):
        before = parts_of(step)
        step(float_batch(), 1e-3, {})
        after = parts_of(step)
        moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
        assert moved == {"critics"} if number % 2 else set(after), number
        if number % 2 == 0:
            for name in ("actor", "critics"):
                wanted = before[f"slow {name}"].lerp(after[name], 0.005)
                torch.testing.assert_close(after[f"slow {name}"], wanted)


def test_slow_copies_may_move_with_every_update_though_the_policy_does_not():
    step = make_step(Td3Config(policy_delay=3, target_interval=1))
    for number in range(1, 7):
        before = parts_of(step)
        step(float_batch(), 1e-3, {})
        after = parts_of(step)
        assert torch.equal(after["actor"], before["actor"]) == bool(number % 3)
        for name in ("actor", "critics"):
            wanted = before[f"slow {name}"].lerp(after[name], 0.005)
            torch.testing.assert_close(after[f"slow {name}"], wanted)
        assert not torch.equal(after["slow critics"], before["slow critics"])


def test_a_delayed_policy_moves_as_adam_would_move_it_alone():
    step, steps, gradients = make_step(Td3Config(policy_delay=3)), [], []
    apply = step.state.optimizer.step
    step.state.optimizer.step = lambda gradient, *rest: (gradients.append(gradient), apply(gradient, *rest))[1]
    place = torch.cat(
        [torch.full((item.numel(),), name.startswith("actor")) for name, item in step.state.networks.named_parameters()]
    )
    theirs = None
    for number in range(1, 10):
        before = parts_of(step)["actor"]
        step(float_batch(), 1e-3, {})
        gradient = gradients[-1][place]
        if number % 3:
            assert not gradient.any()
            continue
        if theirs is None:
            theirs = nn.Parameter(before)
            adam = torch.optim.Adam([theirs], lr=1e-3, eps=step.state.optimizer.epsilon)
        theirs.grad = gradient.clone()
        adam.step()
        steps.append(number)
        torch.testing.assert_close(parts_of(step)["actor"], theirs.detach(), rtol=1e-5, atol=1e-7)
    assert steps == [3, 6, 9]


@pytest.mark.parametrize("name", BOTH)
def test_acting_is_random_until_something_was_learned(name):
    step = make_step(BOTH[name])
    algorithm = BOTH[name].build(make_environment(CONTINUOUS), NETWORK)
    num = 4000
    observations = {"observation": torch.randn(1, NUM_INPUTS).expand(num, -1)}
    nothing = (torch.zeros(num, 2), torch.zeros(num), torch.ones(num, dtype=torch.bool))

    prefix = "pre_tanh_" if name == "sac" else "unclipped_"

    def act(**options):
        generator = torch.Generator().manual_seed(0)
        return algorithm.act(step.state.networks, ActInput(observations, *nothing), generator, **options)

    random = act()
    assert (torch.histc(random.actions, 4, -1, 1) / random.actions.numel() - 0.25).abs().max() < 0.03
    assert not random.mu[prefix + "mean"].any()
    # What is stored as the behaviour has the spread of what was drawn.
    drawn = random.actions.atanh() if name == "sac" else random.actions
    assert drawn.std().item() == pytest.approx(random.mu[prefix + "std"].mean().item(), rel=0.03)
    greedy = act(greedy=True)
    step(float_batch(), 1e-5, {})
    learned = act()
    assert torch.allclose(learned.mu[prefix + "mean"], greedy.mu[prefix + "mean"], atol=1e-3)
    assert learned.actions.abs().max() <= 1.0
    unsquashed = learned.actions.atanh() if name == "sac" else learned.actions
    standard = (unsquashed - learned.mu[prefix + "mean"]) / learned.mu[prefix + "std"]
    assert standard.std().item() == pytest.approx(1.0, abs=0.03)
    eager = dataclasses.replace(BOTH[name], random_start=False).build(make_environment(CONTINUOUS), NETWORK)
    networks = eager.seeded_networks(0)
    assert eager.act(networks, ActInput(observations, *nothing), None).mu[prefix + "mean"].any()


@pytest.mark.parametrize("name", BOTH)
def test_a_step_that_is_not_finite_changes_nothing(name):
    step = make_step(BOTH[name])
    step(float_batch(), 1e-3, {})
    before = {key: value.clone() for key, value in step.state.networks.state_dict().items()}
    batch = float_batch()
    batch.rewards[0, 0] = float("nan")
    metrics, _ = step(batch, 1e-3, {})
    assert metrics["updates_applied"] == 0.0
    for key, value in step.state.networks.state_dict().items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


@pytest.mark.parametrize("name", BOTH)
def test_other_spaces_and_memories_are_refused_in_one_line(name):
    for kind in ("discrete", "multi_discrete"):
        with pytest.raises(ValueError, match=f"algorithm: {name} needs Box actions, .*; use laser"):
            BOTH[name].build(make_environment(ACTIONS[kind]), NETWORK)
    with pytest.raises(ValueError, match=r"network.core: .* single steps"):
        BOTH[name].build(make_environment(CONTINUOUS), NetworkConfig(core="lstm"))


@pytest.mark.parametrize("name", BOTH)
def test_images_can_be_seen_beside_vectors(name):
    images = {"image": FramesSpec((84, 84), stack=2), "x": VectorSpec((3,))}
    algorithm = BOTH[name].build(EnvironmentSpec("Test-v0", images, CONTINUOUS), NetworkConfig())
    spec = UnrollSpec(1, algorithm.environment, algorithm.behaviour)
    step = make_updater(
        algorithm, algorithm.seeded_networks(0), spec, LearnerConfig(compile="off"), torch.device("cpu"), 0
    )
    metrics, _ = step(example_batch(spec, 4, [], "steps"), 1e-4, {})
    assert metrics["updates_applied"] == 1.0


def test_what_is_due():
    assert is_due("actor.", {})
    assert is_due("critics.", {"due": {"actor.": False}})
    assert not is_due("actor.", {"due": {"actor.": False}})
