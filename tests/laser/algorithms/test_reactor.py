"""Reactor's loss against a literal one; what its gradients reach; the target's window; the guessed behaviour."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from literal_targets import literal_retrace
from random_batches import ACTIONS, make_batch, make_environment

from laser.algorithms.reactor import ReactorConfig
from laser.config import find_problems
from laser.networks.config import NetworkConfig
from laser.specs import DiscreteActions

DISCRETE = ACTIONS["discrete"]
CORE_SIZE = 6
ESTIMATORS = [
    ("leave_one_out", 1.0),
    ("leave_one_out", 2.0),
    ("leave_one_out", math.inf),
    ("importance_sampling", 2.0),
    ("importance_sampling", math.inf),
]


def build(core="none", **settings):
    torch.manual_seed(0)
    algorithm = ReactorConfig(**settings).build(
        make_environment(DISCRETE), NetworkConfig(hidden_sizes=(16,), core=core, core_size=CORE_SIZE)
    )
    networks, slow = algorithm.make_networks().double(), algorithm.make_networks().double()
    with torch.no_grad():  # away from the near-uniform start
        for name, head in networks.heads.items():
            if name != "critic":
                head.logits.linear.weight.mul_(100.0)
    return algorithm, networks, slow


def double_batch(algorithm):
    batch = make_batch(DISCRETE, num_rows=7, num_columns=4, seed=2, dtype=torch.float64)
    generator = torch.Generator().manual_seed(5)
    num_columns = batch.rewards.shape[1]
    state = {
        name: torch.randn(num_columns, *array.shape, generator=generator, dtype=torch.float64)
        for name, array in algorithm.core_state.items()
    }
    weights = torch.linspace(0.2, 1.0, num_columns, dtype=torch.float64)
    return dataclasses.replace(batch, core_state=state, importance_weights=weights)


def last_of(batch):
    actions = torch.cat([batch.last_action.unsqueeze(0), batch.actions])
    return actions, torch.cat([batch.last_reward.unsqueeze(0), batch.rewards])


def literal_loss(algorithm, networks, slow, batch, start=1):
    """The paper's loss as loops over rows. `start`: the row with which the target's window begins."""
    config, (num_rows, num_columns) = algorithm.config, batch.rewards.shape
    last_actions, last_rewards = last_of(batch)
    output = networks(batch.observations, last_actions, last_rewards, batch.first, batch.core_state)
    state = {name: value[0].detach() for name, value in output.core_states.items()} if start else batch.core_state
    if config.target_state == "zero":
        state = {name: torch.zeros_like(value) for name, value in state.items()}
    with torch.no_grad():
        shifted = slow(
            {name: value[start:] for name, value in batch.observations.items()},
            last_actions[start:],
            last_rewards[start:],
            batch.first[start:],
            state,
        ).q_values
    slow_q = torch.cat([torch.full((start, *shifted.shape[1:]), 3.0, dtype=torch.float64), shifted]).numpy()
    pi, q = output.policy["logits"].exp(), output.q_values
    mu = output.behaviour["logits"] if config.behaviour_policy == "learned" else batch.mu["logits"]
    fixed_pi, fixed_q, fixed_mu = pi.detach().numpy(), q.detach().numpy(), torch.softmax(mu.detach(), -1).numpy()
    taken = batch.actions.numpy()
    t, b = np.indices(taken.shape)
    returns = literal_retrace(
        slow_q[t, b, taken],
        (fixed_pi[1:] * slow_q[1:]).sum(-1),
        fixed_pi[t, b, taken] / fixed_mu[t, b, taken],
        np.clip(batch.rewards.numpy(), -1, 1) * config.reward_scale
        if config.reward_transform == "clip"
        else batch.rewards.numpy() * config.reward_scale,
        batch.discounts.numpy(),
        config.trace_lambda,
        batch.valid.numpy(),
    )
    rows = [(t, b) for t in range(num_rows) for b in range(num_columns) if batch.valid[t, b]]
    gaps = []
    for t, b in rows:
        values = fixed_q[t, b]
        gaps.append(np.mean([values.max() - values[a] for a in range(3) if a != values.argmax()]))
    cost = config.entropy_cost * (np.mean(gaps) if config.entropy_scale == "action_gap" else 1.0)
    loss = torch.zeros((), dtype=torch.float64)
    for t, b in rows:
        action, ret = taken[t, b], returns[t, b]
        p, m, values = pi[t, b], fixed_mu[t, b], fixed_q[t, b]
        term = 0.5 * (q[t, b, action] - ret) ** 2 + cost * (p * p.log()).sum()
        if config.estimator == "leave_one_out":
            beta = min(config.clip, 1 / m[action])
            term = term - beta * (ret - values[action]) * p[action] - sum(values[a] * p[a] for a in range(3))
        else:
            value, ratios = (fixed_pi[t, b] * values).sum(), fixed_pi[t, b] / m
            term = term - min(config.clip, ratios[action]) * (ret - value) * p[action].log()
            for a in range(3):
                term = term - max(ratios[a] - config.clip, 0.0) * m[a] * (values[a] - value) * p[a].log()
        if config.behaviour_policy == "learned":
            term = term - output.behaviour["logits"][t, b, action]
        loss = loss + batch.importance_weights[b] * term
    return loss / (num_rows * num_columns)


def gradients(loss, networks):
    parts = torch.autograd.grad(loss, list(networks.parameters()))
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("behaviour", ["memorised", "learned"])
@pytest.mark.parametrize(("estimator", "clip"), ESTIMATORS)
def test_it_is_its_literal_loss(core, behaviour, estimator, clip):
    algorithm, networks, slow = build(
        core, behaviour_policy=behaviour, estimator=estimator, clip=clip, reward_transform="clip", reward_scale=0.7
    )
    batch = double_batch(algorithm)
    output = algorithm.loss(networks, {"slow": slow}, batch, {}, None)
    expected = literal_loss(algorithm, networks, slow, batch)
    # Objectives are made to be differentiated: their values are compared through their gradients.
    torch.testing.assert_close(gradients(output.loss, networks), gradients(expected, networks), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "settings", [{"target_state": "zero"}, {"entropy_scale": "none"}, {"trace_lambda": 0.0}, {"exploration": 0.0}]
)
def test_its_other_settings_are_literal_too(settings):
    algorithm, networks, slow = build("lstm", **settings)
    batch = double_batch(algorithm)
    output = algorithm.loss(networks, {"slow": slow}, batch, {}, None)
    expected = literal_loss(algorithm, networks, slow, batch)
    got = gradients(output.loss, networks)
    torch.testing.assert_close(got, gradients(expected, networks), rtol=1e-9, atol=1e-11)
    plain, _, _ = build("lstm")
    other = gradients(plain.loss(networks, {"slow": slow}, batch, {}, None).loss, networks)
    if "exploration" not in settings:  # which is the networks'
        assert not torch.allclose(other, got, rtol=1e-4), "the setting does nothing here"


def test_the_targets_window_begins_one_row_later():
    """A target network that also saw row 0 would answer differently, and its answer for row 0 counts for nothing."""
    algorithm, networks, slow = build("lstm")
    batch = double_batch(algorithm)
    batch.first[:] = False
    loss = algorithm.loss(networks, {"slow": slow}, batch, {}, None).loss
    unshifted = literal_loss(algorithm, networks, slow, batch, start=0)
    assert not torch.allclose(gradients(loss, networks), gradients(unshifted, networks), rtol=1e-4)
    seen = []
    ask = slow.q_values
    slow.q_values = lambda observations, *rest: seen.append((observations, *rest)) or ask(observations, *rest)
    algorithm.loss(networks, {"slow": slow}, batch, {}, None)
    ((observations, last_actions, last_rewards, first, state),) = seen
    assert torch.equal(observations["observation"], batch.observations["observation"][1:])
    assert torch.equal(last_actions, batch.actions)
    assert torch.equal(last_rewards, batch.rewards)
    assert torch.equal(first, batch.first[1:])
    assert set(state) == {"critic_hidden", "critic_cell"}


def test_the_target_is_declared_and_moves_by_whole_copies():
    algorithm, _, _ = build(target_period=17)
    (target,) = algorithm.targets.values()
    assert (target.rate, target.period) == (1.0, 17)


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_the_torso_learns_from_the_critic_alone(core):
    """Whatever is made of the policy and of the guess, the torso's gradient is the same."""
    seen = []
    for settings in (
        {"estimator": "leave_one_out", "entropy_cost": 0.0},
        {"estimator": "importance_sampling", "clip": 2.0, "entropy_cost": 0.5},
    ):
        algorithm, networks, slow = build(core, behaviour_policy="learned", **settings)
        loss = algorithm.loss(networks, {"slow": slow}, double_batch(algorithm), {}, None).loss
        names, parameters = zip(*networks.named_parameters(), strict=True)
        seen.append(dict(zip(names, torch.autograd.grad(loss, parameters), strict=True)))
    one, other = seen
    for name, gradient in one.items():
        assert gradient.abs().sum() > 0
        assert torch.equal(gradient, other[name]) == ("policy" not in name), name


def test_invalid_rows_count_for_nothing():
    algorithm, networks, slow = build(behaviour_policy="learned")
    batch = double_batch(algorithm)
    nonsense = copy.copy(batch)
    nonsense.rewards = torch.where(batch.valid, batch.rewards, 1e6)
    nonsense.actions = torch.where(batch.valid, batch.actions, 2 - batch.actions)
    nonsense.mu = {"logits": torch.where(batch.valid.unsqueeze(-1), batch.mu["logits"], math.inf)}
    one, other = (
        gradients(algorithm.loss(networks, {"slow": slow}, each, {}, None).loss, networks) for each in (batch, nonsense)
    )
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_guess_learns_without_looking_at_what_was_stored():
    algorithm, networks, slow = build(behaviour_policy="learned")
    batch = double_batch(algorithm)
    whole = algorithm.loss(networks, {"slow": slow}, batch, {}, None)
    log = algorithm.loss(networks, {"slow": slow}, dataclasses.replace(batch, mu={}), {}, None)
    assert torch.equal(whole.loss, log.loss)
    assert torch.equal(whole.metrics["kl_from_behaviour"], log.metrics["kl_from_behaviour"])


def test_a_memorised_behaviour_must_be_there():
    algorithm, networks, slow = build()
    batch = dataclasses.replace(double_batch(algorithm), mu={})
    with pytest.raises(ValueError, match=r"behaviour-policy: memorised needs the behaviour's logits.*use learned"):
        algorithm.loss(networks, {"slow": slow}, batch, {}, None)


def test_the_guess_converges_to_who_acted():
    """One state, a mixture of two policies: the guess is the mixture, not either of them."""
    algorithm, networks, slow = build(behaviour_policy="learned", exploration=0.0)
    batch = make_batch(DISCRETE, num_rows=50, num_columns=40, dtype=torch.float64)
    mixed = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]], dtype=torch.float64)
    logits = mixed.log().repeat(20, 1).expand(50, 40, 3)
    actions = algorithm.distribution.sample({"logits": logits}, torch.Generator().manual_seed(0))
    observations = {"observation": torch.ones_like(batch.observations["observation"])}
    batch = dataclasses.replace(
        batch, actions=actions, observations=observations, mu={"logits": logits}, valid=torch.ones_like(batch.valid)
    )
    optimizer = torch.optim.Adam(networks.heads["behaviour"].parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        algorithm.loss(networks, {"slow": slow}, batch, {}, None).loss.backward()
        optimizer.step()
    last_actions, last_rewards = last_of(batch)
    guess = networks(observations, last_actions, last_rewards, batch.first, {}).behaviour["logits"].exp()[0, 0]
    counted = torch.bincount(actions.flatten(), minlength=3) / actions.numel()
    np.testing.assert_allclose(guess.detach().numpy(), counted.numpy(), atol=0.01)


def test_the_next_pieces_memory_is_the_one_before_row_t():
    algorithm, networks, slow = build("lstm", behaviour_policy="learned")
    batch = double_batch(algorithm)
    output = algorithm.loss(networks, {"slow": slow}, batch, {}, None)
    last_actions, last_rewards = last_of(batch)
    states = networks(batch.observations, last_actions, last_rewards, batch.first, batch.core_state).core_states
    assert set(output.core_state) == set(algorithm.core_state) == set(states)
    assert len(states) == 6
    for name, value in output.core_state.items():
        assert torch.equal(value, states[name][-2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip": 0.5}, "clip: must be at least 1, got 0.5"),
        ({"estimator": "reinforce"}, "estimator: must be one of leave_one_out, importance_sampling, got 'reinforce'"),
        ({"exploration": 1.0}, "exploration: must be at least 0 and below 1, got 1.0"),
        ({"target_period": 0}, "target-period: must be at least 1, got 0"),
    ],
)
def test_mistakes_are_one_line_each(changes, message):
    assert [str(problem) for problem in find_problems(ReactorConfig(**changes))] == [message]


@pytest.mark.parametrize(
    ("actions", "network", "message"),
    [
        (
            ACTIONS["continuous"],
            {},
            "algorithm: reactor needs Discrete actions, probe has Box; use laser",
        ),
        (DiscreteActions(1), {}, "algorithm: reactor needs a choice, probe has one action"),
        (
            DISCRETE,
            {"separate_critic": True},
            "network.separate-critic: reactor's policy reads the torso of its critic",
        ),
    ],
)
def test_what_it_cannot_learn_from_is_refused(actions, network, message):
    with pytest.raises(ValueError, match=message):
        ReactorConfig().build(make_environment(actions), NetworkConfig(**network))


def test_the_live_setting_counts_like_the_config():
    algorithm, networks, slow = build()
    batch = double_batch(algorithm)
    changed = dataclasses.replace(algorithm.config, entropy_cost=0.7).build(make_environment(DISCRETE), NetworkConfig())
    expected = changed.loss(networks, {"slow": slow}, batch, {}, None).loss
    assert algorithm.loss(networks, {"slow": slow}, batch, {"entropy_cost": 0.7}, None).loss == expected
    assert algorithm.loss(networks, {"slow": slow}, batch, {}, None).loss != expected


def test_the_distance_from_the_behaviour_is_that_from_mu_to_pi():
    algorithm, networks, slow = build(behaviour_policy="recorded")
    batch = double_batch(algorithm)
    output = algorithm.loss(networks, {"slow": slow}, batch, {}, None)
    last_actions, last_rewards = last_of(batch)
    pi = networks(batch.observations, last_actions, last_rewards, batch.first, batch.core_state).policy["logits"][:-1]
    mu, pi = (torch.distributions.Categorical(logits=logits) for logits in (batch.mu["logits"], pi))
    expected = torch.distributions.kl_divergence(mu, pi)[batch.valid].mean()
    assert output.metrics["kl_from_behaviour"].item() == pytest.approx(expected.item(), rel=1e-5)
