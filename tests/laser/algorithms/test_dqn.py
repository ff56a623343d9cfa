"""DQN's loss against a loop over the batch for every set of parts, how it acts, and that it learns."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, NUM_INPUTS, make_batch, make_environment

from laser.algorithms.base import ActInput, Target
from laser.algorithms.dqn import NOISE, TARGET, DqnConfig
from laser.algorithms.rainbow import RainbowConfig
from laser.config import find_problems
from laser.networks.config import NetworkConfig

DISCRETE = ACTIONS["discrete"]
C51 = {"distributional": True, "num_atoms": 6, "lowest_return": -3.0, "highest_return": 2.0}
PARTS = {
    "plain": DqnConfig(),
    "squared": DqnConfig(error_loss="squared"),
    "double": DqnConfig(double=True),
    "dueling": DqnConfig(dueling=True, head_size=5),
    "distributional": DqnConfig(**C51),
    "noisy": DqnConfig(noisy=True),
    "double_distributional": DqnConfig(double=True, **C51),
    "all": DqnConfig(double=True, dueling=True, head_size=5, noisy=True, **C51),
}


def build(config, seed=0):
    torch.manual_seed(seed)
    algorithm = config.build(make_environment(DISCRETE), NetworkConfig(hidden_sizes=(8,)))
    networks, slow = algorithm.make_networks().double(), algorithm.make_networks().double()
    with torch.no_grad():
        for item in [*networks.parameters(), *slow.parameters()]:
            item.add_(0.5 * torch.randn_like(item))
    return algorithm, networks, {TARGET: slow.requires_grad_(False)}


def make_steps(num_columns=40):
    batch = make_batch(DISCRETE, num_rows=1, num_columns=num_columns, dtype=torch.float64, seed=3)
    weights = torch.rand(num_columns, generator=torch.Generator().manual_seed(0)).double() + 0.5
    return dataclasses.replace(batch, importance_weights=weights)


def literal_loss(config, networks, slow, batch, factors, mistake=None):
    """Walk the items one by one; return the loss and every item's (error, value taken, loss)."""
    total, items = 0.0, []
    support = np.linspace(config.lowest_return, config.highest_return, config.num_atoms)
    for b in range(batch.shape[1]):
        state, after = ({"observation": batch.observations["observation"][row, b : b + 1]} for row in (0, 1))
        action, reward, discount = batch.actions[0, b], batch.rewards[0, b].item(), batch.discounts[0, b].item()
        q_values, outputs = networks(state, factors[0])
        slow_values, slow_outputs = slow(after, factors[1])
        chooser = networks(after, factors[2])[0] if config.double != (mistake == "double") else slow_values
        best = chooser[0].argmax().item()
        q_taken = q_values[0, action]
        if config.distributional:
            returns = np.zeros(config.num_atoms)
            for atom, probability in zip(support, slow_outputs[0, best].softmax(-1).tolist(), strict=True):
                landed = np.clip(reward + discount * atom, support[0], support[-1])
                returns += probability * np.clip(1 - np.abs(landed - support) / (support[1] - support[0]), 0, 1)
            loss = -(torch.from_numpy(returns) * outputs[0, action].log_softmax(-1)).sum()
            error = float(returns @ support) - q_taken.item()
        else:
            difference = reward + discount * slow_values[0, best].item() - q_taken
            huber = config.error_loss == "huber" and abs(difference.item()) > 1.0
            loss = difference.abs() - 0.5 if huber else 0.5 * difference**2
            error = difference.item()
        total = total + batch.importance_weights[b] * loss / batch.shape[1]
        items.append((error, q_taken.item(), loss.item()))
    return total, np.array(items).T


def gradient(networks, loss):
    networks.zero_grad()
    loss.backward()
    return torch.cat([item.grad.flatten() for item in networks.parameters()])


def drawn_factors(algorithm, networks, monkeypatch):
    """Let the loss use noise that is known here; return it."""
    if not algorithm.config.noisy:
        return [None, None, None]
    factors = torch.randn(3, networks.head.num_factors, dtype=torch.float64)
    monkeypatch.setattr("laser.algorithms.dqn.draw_factors", lambda *_: factors)
    return list(factors)


@pytest.mark.parametrize("config", PARTS.values(), ids=PARTS)
def test_the_loss_is_the_literal_one(config, monkeypatch):
    algorithm, networks, targets = build(config)
    batch, factors = make_steps(), drawn_factors(algorithm, networks, monkeypatch)
    output = algorithm.loss(networks, targets, batch, {}, None)
    loss, (errors, q_values, losses) = literal_loss(config, networks, targets[TARGET], batch, factors)
    assert output.loss.item() == pytest.approx(loss.item(), rel=1e-10)
    torch.testing.assert_close(gradient(networks, output.loss), gradient(networks, loss), rtol=1e-8, atol=1e-10)
    assert (batch.discounts == 0).any()
    assert set(output.per_step) == set(algorithm.per_step)
    np.testing.assert_allclose(output.per_step["td_error"][0].numpy(), errors, rtol=0, atol=1e-10)
    np.testing.assert_allclose(output.per_step["q"][0].numpy(), q_values, rtol=0, atol=1e-10)
    assert ("priority" in output.per_step) is config.distributional
    if config.distributional:
        np.testing.assert_allclose(output.per_step["priority"][0].numpy(), losses, rtol=0, atol=1e-10)
    elif config.error_loss == "huber":
        assert (np.abs(errors) > 1).any()
        assert (np.abs(errors) < 1).any()


@pytest.mark.parametrize("name", ["double", "plain", "double_distributional", "distributional"])
def test_the_data_can_tell_who_chooses(name):
    algorithm, networks, targets = build(PARTS[name])
    batch = make_steps()
    output = algorithm.loss(networks, targets, batch, {}, None)
    wrong, _ = literal_loss(PARTS[name], networks, targets[TARGET], batch, [None] * 3, mistake="double")
    assert abs(output.loss.item() - wrong.item()) > 1e-3


def test_noise_comes_from_the_generator_and_differs_between_the_passes():
    algorithm, networks, targets = build(PARTS["all"])
    networks, targets = networks.float(), {TARGET: targets[TARGET].float()}
    batch = make_batch(DISCRETE, num_rows=1, num_columns=8)
    losses = [
        algorithm.loss(networks, targets, batch, {}, torch.Generator().manual_seed(seed)).loss.item()
        for seed in (0, 0, 1)
    ]
    assert losses[0] == losses[1] != losses[2]
    seen = []

    class Spy(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.head, self.support, self.num_updates = (
                inner, inner.head, inner.support, inner.num_updates
            )  # fmt: skip

        def forward(self, observations, factors):
            seen.append(factors)
            return self.inner(observations, factors)

    algorithm.loss(Spy(networks), {TARGET: Spy(targets[TARGET])}, batch, {}, torch.Generator().manual_seed(0))
    assert len(seen) == 3
    assert not any(torch.equal(seen[i], seen[j]) for i, j in [(0, 1), (0, 2), (1, 2)])


def act(algorithm, networks, generator, *, num_envs=4, first=None, state=None, greedy=False):
    observations = torch.linspace(-1, 1, NUM_INPUTS).expand(num_envs, NUM_INPUTS).contiguous()
    none = torch.zeros(num_envs)
    first = torch.zeros(num_envs, dtype=torch.bool) if first is None else first
    seen = {"observation": observations.to(next(networks.parameters()).dtype)}
    inputs = ActInput(seen, none.long(), none, first, state or {})
    return algorithm.act(networks, inputs, generator, greedy=greedy)


def test_epsilon_falls_with_the_updates_that_the_published_networks_have_seen():
    config = DqnConfig(epsilon_start=0.9, epsilon=0.1, epsilon_updates=4)
    algorithm, networks, targets = build(config)
    seen = []
    for _ in range(6):
        (probabilities,) = act(algorithm, networks, None, num_envs=1).mu["logits"].exp()
        assert (probabilities - probabilities.min()).count_nonzero() == 1
        seen.append(3 * probabilities.min().item())
        output = algorithm.loss(networks, targets, make_steps(), {}, None)
        assert output.metrics["epsilon"].item() == pytest.approx(seen[-1])
        networks.load_state_dict(networks.state_dict() | output.state_updates)
    assert seen == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1, 0.1])


def test_greedy_is_without_noise():
    algorithm, networks, _ = build(PARTS["all"])
    networks.float()
    q_values, _ = networks({"observation": torch.linspace(-1, 1, NUM_INPUTS).unsqueeze(0)})
    output = act(algorithm, networks, torch.Generator().manual_seed(0), greedy=True)
    assert output.actions.tolist() == [q_values.argmax().item()] * 4
    torch.testing.assert_close(output.values, q_values.max().expand(4))


@pytest.mark.parametrize("lasts", ["step", "episode"])
def test_noise_lasts_for_a_step_or_an_episode_and_is_each_environments_own(lasts):
    config = dataclasses.replace(PARTS["all"], noise_lasts=lasts)
    algorithm, networks, _ = build(config)
    networks.float()
    generator = torch.Generator().manual_seed(0)
    state = {name: torch.zeros(4, *array.shape) for name, array in algorithm.acting_state.items()}
    assert set(state) == ({NOISE} if lasts == "episode" else set())
    begin = act(algorithm, networks, generator, first=torch.ones(4, dtype=torch.bool), state=state)
    assert len(set(begin.values.tolist())) == 4
    first = torch.tensor([False, False, True, False])
    later = act(algorithm, networks, generator, first=first, state=begin.core_state)
    kept = (later.values == begin.values).tolist()
    assert kept == ([True, True, False, True] if lasts == "episode" else [False] * 4)


def test_rainbow_is_everything_with_the_papers_constants():
    config = RainbowConfig()
    parts = (config.double, config.dueling, config.distributional, config.noisy)
    assert all(parts)
    assert (config.num_steps, config.num_atoms, config.head_size, config.target_period) == (20, 51, 256, 2000)
    assert (config.learning_rate, config.optimizer_epsilon, config.max_gradient_norm) == (1e-4, 1.5e-4, 10.0)
    algorithm = config.build(make_environment(DISCRETE), NetworkConfig())
    assert algorithm.targets == {TARGET: Target(rate=1.0, period=2000)}
    assert (config.step_reward_clip, config.steps_per_item, config.batch_size, config.discount) == (1.0, 20, 32, 0.99)


def test_what_does_not_go_together_is_named():
    (problem,) = find_problems(DqnConfig(lowest_return=3.0, highest_return=3.0))
    assert str(problem).startswith("lowest-return: must be below highest-return (3), got 3")
    assert {problem.key for problem in find_problems(DqnConfig(epsilon=1.5, num_atoms=1, noisy_std=0.0))} == {
        "epsilon", "num-atoms", "noisy-std"
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"dqn needs Discrete actions, probe has Box; use laser"):
        DqnConfig().build(make_environment(ACTIONS["continuous"]), NetworkConfig())


@pytest.mark.parametrize("name", ["plain", "all"])
def test_it_finds_the_values_of_a_chain(name):
    """Two states in a row, gamma 0.9: action 1 pays 1 in the second, and 0.5 ends the first."""
    config = dataclasses.replace(PARTS[name], noisy=False)
    algorithm, networks, targets = build(config)
    states = torch.eye(NUM_INPUTS, dtype=torch.float64)
    here, actions = (each.flatten() for each in torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"))
    batch = dataclasses.replace(
        make_batch(DISCRETE, num_rows=1, num_columns=6, dtype=torch.float64),
        observations={"observation": torch.stack([states[here], states[here + 1]])},
        actions=actions.unsqueeze(0),
        rewards=torch.tensor([[0.0, 0.0, 0.5, 0.0, 1.0, -1.0]], dtype=torch.float64),
        discounts=torch.tensor([[0.9, 0.9, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64),
    )
    optimizer = torch.optim.Adam(networks.parameters(), 4e-2)
    for update in range(300):
        if update % 20 == 0:
            targets[TARGET].load_state_dict(networks.state_dict())
        optimizer.zero_grad()
        algorithm.loss(networks, targets, batch, {}, None).loss.backward()
        optimizer.step()
    q_values = networks({"observation": states[:2]})[0].tolist()
    assert q_values[0] == pytest.approx([0.9, 0.9, 0.5], abs=0.05)
    assert q_values[1] == pytest.approx([0.0, 1.0, -1.0], abs=0.05)
    assert not math.isclose(q_values[0][2], 0.9, abs_tol=0.2)
