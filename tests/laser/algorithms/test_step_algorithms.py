"""RACER, V-RACER, DDPG and NAF: their gradients written out, and what must not reach what."""

import dataclasses

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, NUM_INPUTS, make_batch, make_environment

from laser.algorithms.base import ActInput
from laser.algorithms.ddpg import DdpgConfig
from laser.algorithms.deterministic import NOISE
from laser.algorithms.naf import NafConfig
from laser.algorithms.racer import RacerConfig
from laser.algorithms.refer import ReferConfig
from laser.algorithms.v_racer import VRacerConfig
from laser.networks.config import NetworkConfig
from laser.ops.advantages import lower_triangular, quadratic_form
from laser.specs import EnvironmentSpec, FramesSpec, VectorSpec
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.experience.collate import example_batch
from learner.updating.factory import make_updater

CONTINUOUS = ACTIONS["continuous"]
NETWORK = NetworkConfig(hidden_sizes=(16, 8), activation="softsign")
RACERS = {
    "v_racer": VRacerConfig(),
    "quadratic": RacerConfig(advantage="quadratic"),
    "symmetric": RacerConfig(advantage="symmetric"),
    "asymmetric": RacerConfig(advantage="asymmetric"),
}
ALL = {**RACERS, "ddpg": DdpgConfig(), "bounded": DdpgConfig(bounded=True), "naf": NafConfig()}


def build(config, beta=0.6, c_max=3.0):
    """Return an algorithm, its networks away from their start, and target networks that differ, in float64."""
    torch.manual_seed(1)
    algorithm = config.build(make_environment(CONTINUOUS), NETWORK)
    networks, slow = algorithm.make_networks().double(), algorithm.make_networks().double()
    with torch.no_grad():
        for item in [*networks.parameters(), *slow.parameters()]:
            item.add_(0.3 * torch.randn_like(item))
        networks.refer.beta.fill_(beta)
        networks.refer.c_max.fill_(c_max)
        for one in (networks, slow):
            one.normalizer.reward_scale.fill_(2.5)
            one.normalizer.mean_0.copy_(torch.linspace(-1, 1, NUM_INPUTS))
            one.normalizer.std_0.copy_(torch.linspace(0.5, 2, NUM_INPUTS))
    return algorithm, networks, {"slow": slow.requires_grad_(False)}


def make_steps(algorithm, networks, num_columns=24, std=None):
    """Return a batch of single steps, about half of them near-policy."""
    batch = make_batch(CONTINUOUS, num_rows=1, num_columns=num_columns, dtype=torch.float64, mu_scale=0.3)
    generator = torch.Generator().manual_seed(5)
    if std is not None:
        batch.mu["std"] = torch.full_like(batch.mu["std"], std)
        # The behaviour lies around the policy, closer for some.
        with torch.no_grad():
            mean = algorithm.mean_action(networks, {name: value[0] for name, value in batch.observations.items()})
        spread = torch.linspace(0.02, 1.0, num_columns, dtype=torch.float64)[:, None]
        batch.mu["mean"] = (mean + std * spread * torch.randn(mean.shape, generator=generator).double()).unsqueeze(0)
        noise = torch.randn(mean.shape, generator=generator).double()
        batch.actions = batch.mu["mean"] + std * noise
    weights = torch.rand(num_columns, generator=generator).double() + 0.5
    columns = {"q_retrace": 3.0 * torch.randn(1, num_columns, generator=generator).double()}
    return dataclasses.replace(batch, importance_weights=weights, columns=columns)


def gradient_of(networks):
    return {name: item.grad.clone() for name, item in networks.named_parameters() if item.grad is not None}


def run(algorithm, networks, targets, batch):
    networks.zero_grad()
    output = algorithm.loss(networks, targets, batch, {}, None)
    output.loss.backward()
    return output, gradient_of(networks)


def assert_same(got, expected):
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name].numpy(), value.numpy(), rtol=1e-9, atol=1e-11, err_msg=name)


def literal_ratio(mu, policy, action):
    """Return rho of one step from the two densities."""
    rho = 1.0
    for i in range(len(action)):
        for statistics, sign in ((policy, 1), (mu, -1)):
            m, s = statistics["mean"][i], statistics["std"][i]
            rho *= (np.exp(-0.5 * ((action[i] - m) / s) ** 2) / s) ** sign
    return rho


@pytest.mark.parametrize("name", RACERS)
@pytest.mark.parametrize("beta", [0.6, 1.0])
def test_racers_gradient_is_the_papers_on_each_output(name, beta):
    algorithm, networks, targets = build(RACERS[name], beta)
    batch = make_steps(algorithm, networks)
    output, got = run(algorithm, networks, targets, batch)

    networks.zero_grad()
    said = networks({key: value[0] for key, value in batch.observations.items()})
    num = len(batch.importance_weights)
    on_value, on_mean = torch.zeros(num).double(), torch.zeros(num, 2).double()
    on_std, on_coefficients = torch.zeros(num, 2).double(), torch.zeros_like(said.coefficients)
    num_near = 0
    for i in range(num):
        action = batch.actions[0, i].numpy()
        mu = {key: value[0, i].numpy() for key, value in batch.mu.items()}
        pi = {key: value[i].detach().numpy() for key, value in said.policy.items()}
        rho = literal_ratio(mu, pi, action)
        near = 1 / 3.0 < rho < 3.0
        num_near += near
        value, advantage, slope = said.values[i].item(), 0.0, None
        if algorithm.advantage is not None:
            coefficients = said.coefficients[i].detach().requires_grad_(True)
            mean, variance = torch.tensor(pi["mean"]), torch.tensor(pi["std"]) ** 2
            taken = algorithm.advantage(coefficients, batch.actions[0, i], mean, variance)
            taken.backward()
            advantage, slope = taken.item(), coefficients.grad
        a_ret = batch.columns["q_retrace"][0, i].item() / 2.5 - value
        weight = batch.importance_weights[i].item() / num
        m, s, mm, sm = pi["mean"], pi["std"], mu["mean"], mu["std"]
        pull_m, pull_s = (m - mm) / s**2, (s**2 - sm**2 - (mm - m) ** 2) / s**3
        on_mean[i] = torch.tensor((1 - beta) * pull_m * weight)
        on_std[i] = torch.tensor((1 - beta) * pull_s * weight)
        if near:
            on_value[i] = -beta * min(1.0, rho) * (a_ret - advantage) * weight
            on_mean[i] -= torch.tensor(beta * weight * rho * a_ret * (action - m) / s**2)
            on_std[i] -= torch.tensor(beta * weight * rho * a_ret * ((action - m) ** 2 - s**2) / s**3)
            if slope is not None:
                on_coefficients[i] = -beta * weight * rho * (a_ret - advantage) * slope
        written = {key: column[0, i].item() for key, column in output.column_writes.items()}
        assert written["rho"] == pytest.approx(min(max(rho, np.exp(-7)), np.exp(7)), rel=1e-5)
        assert written["value"] == pytest.approx(2.5 * value, rel=1e-5)
        assert ("advantage" in written) == (algorithm.advantage is not None)
        if "advantage" in written:
            assert written["advantage"] == pytest.approx(2.5 * advantage, rel=1e-5, abs=1e-5)
    assert 4 < num_near < num - 4
    outputs = [said.values, said.policy["mean"], said.policy["std"]]
    gradients = [on_value, on_mean, on_std]
    if algorithm.advantage is not None:
        outputs.append(said.coefficients)
        gradients.append(on_coefficients)
    torch.autograd.backward(outputs, gradients)
    assert_same(got, gradient_of(networks))
    after = networks({key: value[1] for key, value in batch.observations.items()})
    np.testing.assert_allclose(output.final_writes["value"][0].numpy(), 2.5 * after.values.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_far_steps_move_nothing_when_beta_is_one(name):
    algorithm, networks, targets = build(ALL[name], beta=1.0, c_max=1.0 + 1e-9)
    batch = make_steps(algorithm, networks, std=0.2 if name not in RACERS else None)
    _, gradient = run(algorithm, networks, targets, batch)
    assert all((value == 0).all() for value in gradient.values())


@pytest.mark.parametrize("name", ALL)
def test_without_refer_every_step_counts_in_full(name):
    config = dataclasses.replace(ALL[name], refer=ReferConfig(enabled=False))
    algorithm, networks, targets = build(config, beta=0.3, c_max=1.0 + 1e-9)
    batch = make_steps(algorithm, networks, std=0.2 if name not in RACERS else None)
    output, gradient = run(algorithm, networks, targets, batch)
    assert output.metrics["far_fraction"] == 1.0
    other, networks_2, targets_2 = build(ALL[name], beta=1.0, c_max=np.inf)
    assert_same(gradient, run(other, networks_2, targets_2, batch)[1])
    assert any((value != 0).any() for value in gradient.values())


@pytest.mark.parametrize("bounded", [False, True])
def test_ddpgs_gradient_is_the_papers(bounded):
    algorithm, networks, targets = build(DdpgConfig(bounded=bounded), beta=0.6)
    batch = make_steps(algorithm, networks, std=0.2)
    output, got = run(algorithm, networks, targets, batch)

    networks.zero_grad()
    slow, num = targets["slow"], len(batch.importance_weights)
    mean, std = torch.linspace(-1, 1, NUM_INPUTS).double(), torch.linspace(0.5, 2, NUM_INPUTS).double()
    critic, actor, num_near = 0.0, 0.0, 0
    for i in range(num):
        now, after = (
            {"observation": (batch.observations["observation"][row, i] - mean) / (std + 1e-7)} for row in (0, 1)
        )
        now, after = ({key: value.unsqueeze(0) for key, value in state.items()} for state in (now, after))
        wanted = slow.actor(after)
        target = batch.rewards[0, i] / 2.5 + batch.discounts[0, i] * slow.critic(after, wanted)
        action, m = batch.actions[0, i].unsqueeze(0), networks.actor(now)
        assert bounded == bool((m.abs() < 1).all()) or not bounded
        mm = batch.mu["mean"][0, i]
        policy = {"mean": m[0].detach().numpy(), "std": np.array([0.2, 0.2])}
        rho = literal_ratio({"mean": mm.numpy(), "std": policy["std"]}, policy, action[0].numpy())
        near = 1 / 3.0 < rho < 3.0
        num_near += near
        if near:
            critic = (
                critic + batch.importance_weights[i] * 0.5 * (target - networks.critic(now, action)).sum() ** 2 / num
            )
            actor = actor - 0.6 * networks.critic(now, m).sum() / num
        actor = actor + 0.4 * ((m[0] - mm) ** 2 / (2 * 0.2**2)).sum() / num
        assert output.column_writes["rho"][0, i].item() == pytest.approx(np.clip(rho, np.exp(-7), np.exp(7)), rel=1e-6)
    assert 4 < num_near < num - 4
    expected = {}
    for part, loss in (("actor", actor), ("critic", critic)):
        named = [(name, item) for name, item in networks.named_parameters() if name.startswith(part)]
        gradients = torch.autograd.grad(loss, [item for _, item in named], retain_graph=True)
        expected |= dict(zip((name for name, _ in named), gradients, strict=True))
    assert_same(got, expected)


def test_nafs_gradient_is_the_papers():
    algorithm, networks, targets = build(NafConfig(), beta=0.6)
    batch = make_steps(algorithm, networks, std=0.2)
    _, got = run(algorithm, networks, targets, batch)

    networks.zero_grad()
    num, num_near = len(batch.importance_weights), 0
    values, mean, coefficients = networks({key: value[0] for key, value in batch.observations.items()})
    next_values = targets["slow"]({key: value[1] for key, value in batch.observations.items()})[0]
    on_value, on_mean, on_triangle = (
        torch.zeros(num).double(),
        torch.zeros(num, 2).double(),
        torch.zeros(num, 3).double(),
    )
    for i in range(num):
        action, mm = batch.actions[0, i], batch.mu["mean"][0, i].numpy()
        m, triangle = mean[i].detach().requires_grad_(True), coefficients[i].detach().requires_grad_(True)
        curve = quadratic_form(action, m, lower_triangular(triangle, 2))
        curve.backward()
        q = values[i].item() + curve.item()
        error = batch.rewards[0, i].item() / 2.5 + batch.discounts[0, i].item() * next_values[i].item() - q
        policy = {"mean": m.detach().numpy(), "std": np.array([0.2, 0.2])}
        rho = literal_ratio({"mean": mm, "std": policy["std"]}, policy, action.numpy())
        weight = batch.importance_weights[i].item() / num
        on_mean[i] = torch.tensor(0.4 * (policy["mean"] - mm) / 0.04 / num)
        if 1 / 3.0 < rho < 3.0:
            num_near += 1
            on_value[i] = -error * weight
            on_mean[i] -= 0.6 * error * weight * m.grad
            on_triangle[i] = -error * weight * triangle.grad
    assert 4 < num_near < num - 4
    torch.autograd.backward([values, mean, coefficients], [on_value, on_mean, on_triangle])
    assert_same(got, gradient_of(networks))


@pytest.mark.parametrize("name", ALL)
def test_a_diverged_step_is_survived(name):
    algorithm, networks, targets = build(ALL[name])
    batch = make_steps(algorithm, networks, std=0.2 if name not in RACERS else None)
    batch.actions[0, 0] = 1e20  # a ratio of 0
    output, gradient = run(algorithm, networks, targets, batch)
    assert torch.isfinite(output.loss)
    assert all(torch.isfinite(value).all() for value in gradient.values())
    assert all(torch.isfinite(value).all() for value in output.column_writes.values())


@pytest.mark.parametrize("name", ALL)
def test_acting_is_inside_the_cut_and_says_what_it_was_drawn_from(name):
    config = ALL[name]
    algorithm = config.build(make_environment(CONTINUOUS), NETWORK)
    networks = algorithm.seeded_networks(0)
    generator = torch.Generator().manual_seed(0)
    num = 4000
    observations = {"observation": torch.randn(1, NUM_INPUTS).expand(num, -1)}
    nothing = (torch.zeros(num, 2), torch.zeros(num), torch.ones(num, dtype=torch.bool))
    output = algorithm.act(networks, ActInput(observations, *nothing), generator)
    assert {key: value.shape for key, value in output.mu.items()} == {
        key: (num, *spec.shape) for key, spec in algorithm.behaviour.items()
    }
    standard = (output.actions - output.mu["mean"]) / output.mu["std"]
    assert standard.std().item() == pytest.approx(0.9866, abs=0.03)
    assert 2.5 < standard.abs().max() <= 3.0 + 1e-5
    greedy = algorithm.act(networks, ActInput(observations, *nothing), generator, greedy=True)
    assert (greedy.actions == greedy.mu["mean"]).all()


@pytest.mark.parametrize("name", RACERS)
def test_what_is_stored_of_a_diverged_network_is_finite(name):
    algorithm, networks, _ = build(ALL[name])
    networks.normalizer.reward_scale.fill_(1e38)
    with torch.no_grad():
        networks.output.bias.fill_(1e3)
    inputs = ActInput(
        {"observation": torch.randn(4, NUM_INPUTS)}, torch.zeros(4, 2), torch.zeros(4), torch.zeros(4) > 0
    )
    mu = algorithm.act(networks, inputs, torch.Generator().manual_seed(0)).mu
    assert mu["value"].min() >= 1e30
    assert all(torch.isfinite(value).all() for value in mu.values())


def test_drifting_noise_is_carried_from_step_to_step():
    algorithm = DdpgConfig(exploration="ornstein_uhlenbeck").build(make_environment(CONTINUOUS), NETWORK)
    networks, generator = algorithm.seeded_networks(0), torch.Generator().manual_seed(0)
    (spec,) = algorithm.acting_state.values()
    state = {NOISE: torch.zeros(500, *spec.shape)}
    seen, first = [], torch.zeros(500, dtype=torch.bool)
    observations = {"observation": torch.zeros(500, NUM_INPUTS)}
    for _ in range(60):
        inputs = ActInput(observations, torch.zeros(500, 2), torch.zeros(500), first, state)
        output = algorithm.act(networks, inputs, generator)
        state = output.core_state
        seen.append(output.actions - output.mu["mean"])
    noise = torch.stack(seen)[30:]
    memory = (noise[1:] * noise[:-1]).mean() / noise.square().mean()
    assert memory.item() == pytest.approx(0.85, abs=0.03)


def statistics(num_far=0.0, num_steps=100.0):
    seen = np.random.default_rng(0).normal([1, -2, 0, 5], [1, 2, 0.5, 0], size=(100, 4))
    rewards = np.linspace(-3, 3, 100)
    return (
        seen,
        rewards,
        {
            "num_steps": np.array(num_steps),
            "reward_squares": np.array((rewards**2).sum()),
            "observation/observation": seen.sum(0),
            "observation_squares/observation": (seen**2).sum(0),
            "num_far/rho": np.array(num_far),
        },
    )


def test_the_size_of_a_single_step_is_its_own():
    networks = RacerConfig().build(make_environment(CONTINUOUS), NETWORK).seeded_networks(0)
    seen = np.array([1.0, -2.0, 0.5, 5.0])
    sums = {"num_steps": 1.0, "observation/observation": seen, "observation_squares/observation": seen**2}
    updates = networks.normalizer.observation_updates(sums)
    np.testing.assert_allclose(updates["mean_0"].numpy(), seen, rtol=1e-6)
    np.testing.assert_allclose(updates["std_0"].numpy(), 0.0, atol=1e-6)
    assert networks.normalizer.reward_updates({"num_steps": 1.0, "reward_squares": 9.0})[
        "reward_scale"
    ].item() == pytest.approx(3.0, rel=1e-5)


def test_sizes_are_measured_when_learning_starts_and_rewards_again_and_again():
    config = RacerConfig(reward_interval=10, refer=ReferConfig(annealing=0.1, beta_rate=0.25, initial_beta=0.5))
    algorithm = config.build(make_environment(CONTINUOUS), NETWORK)
    networks = algorithm.seeded_networks(0)
    seen, rewards, sums = statistics()
    updates = algorithm.observe(networks, sums, 0)
    np.testing.assert_allclose(updates["normalizer.mean_0"].numpy(), seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(updates["normalizer.std_0"].numpy(), seen.std(0), rtol=1e-4, atol=1e-6)
    assert updates["normalizer.reward_scale"].item() == pytest.approx(np.sqrt((rewards**2).mean()), rel=1e-5)
    assert "refer.beta" not in updates
    assert updates["refer.c_max"].item() == 5.0
    assert set(algorithm.observe(networks, sums, 3)) == {"refer.beta", "refer.c_max"}
    assert set(algorithm.observe(networks, sums, 20)) == {"refer.beta", "refer.c_max", "normalizer.reward_scale"}
    few, many = (algorithm.observe(networks, statistics(num_far)[2], 10) for num_far in (5.0, 15.0))
    assert few["refer.beta"].item() == pytest.approx(0.625)
    assert many["refer.beta"].item() == pytest.approx(0.375)
    annealed = dataclasses.replace(config, refer=dataclasses.replace(config.refer, anneal_beta_rate=True))
    slower = annealed.build(make_environment(CONTINUOUS), NETWORK).observe(networks, statistics(num_far=5.0)[2], 10)
    assert slower["refer.beta"].item() == pytest.approx(0.5 * 0.875 + 0.125)  # a rate of 0.25 / (1 + 0.1 * 10)
    assert many["refer.c_max"].item() == 3.0
    assert config.rate_factor(10) == 0.5
    assert dataclasses.replace(config, refer=ReferConfig(enabled=False, annealing=0.1)).rate_factor(10) == 1.0


def test_an_observation_that_never_varied_is_not_blown_up():
    algorithm = RacerConfig().build(make_environment(CONTINUOUS), NETWORK)
    networks = algorithm.seeded_networks(0)
    for name, value in algorithm.observe(networks, statistics()[2], 0).items():
        networks.state_dict()[name].copy_(value)
    standard = networks.normalizer({"observation": torch.tensor([[1.0, -2.0, 0.0, 6.0], [1.0, -2.0, 0.0, 5.0]])})
    assert standard["observation"][:, 3].tolist() == pytest.approx([20.0, 0.0], abs=1e-3)


def test_observations_that_are_not_standardised_come_as_they_are():
    algorithm = RacerConfig(normalize_observations=False).build(make_environment(CONTINUOUS), NETWORK)
    networks = algorithm.seeded_networks(0)
    assert not any("mean" in name or "std" in name for name in algorithm.observe(networks, statistics()[2], 0))
    seen = torch.tensor([[100.0, -50.0, 0.0, 1.0]])
    assert torch.equal(networks.normalizer({"observation": seen})["observation"], seen)


def test_rewards_that_were_all_0_leave_the_first_other_one_as_it_is():
    algorithm = RacerConfig().build(make_environment(CONTINUOUS), NETWORK)
    _, _, sums = statistics()
    sums["reward_squares"] = np.array(0.0)
    assert algorithm.observe(algorithm.seeded_networks(0), sums, 0)["normalizer.reward_scale"] == 1.0


def test_rewards_too_large_for_float32_do_not_overflow():
    algorithm = RacerConfig().build(make_environment(CONTINUOUS), NETWORK)
    _, _, sums = statistics()
    sums["reward_squares"] = np.array(1e300)
    assert torch.isfinite(algorithm.observe(algorithm.seeded_networks(0), sums, 0)["normalizer.reward_scale"])


def test_what_goes_with_column_writes():
    every = RacerConfig(refresh_interval=5, refer=ReferConfig(recount_interval=10))
    algorithm = every.build(make_environment(CONTINUOUS), NETWORK)
    options = [algorithm.write_options(k, 0.9) for k in range(11)]
    assert [each.sweep.reach for each in options] == ["all", *["none"] * 4, "all", *["none"] * 4, "all"]
    assert options[0].sweep.discount == 0.9
    assert [bool(each.far_bounds) for each in options] == [True, *[False] * 9, True]
    # A resumed run tells a replay that may be new what held when it was interrupted.
    resumed = every.build(make_environment(CONTINUOUS), NETWORK)
    assert resumed.write_options(17, 0.9).far_bounds == options[10].far_bounds
    assert not resumed.write_options(18, 0.9).far_bounds
    for refresh, reach in (("per_sample", "episodes"), ("early_stop", "changed")):
        algorithm = dataclasses.replace(every, refresh=refresh).build(make_environment(CONTINUOUS), NETWORK)
        assert algorithm.write_options(3, 0.9).sweep.reach == reach


@pytest.mark.parametrize("name", ALL)
def test_other_spaces_and_memories_are_refused_in_one_line(name):
    for kind in ("discrete", "multi_discrete"):
        with pytest.raises(ValueError, match=f"algorithm: {ALL[name].name} needs Box actions, .*; use laser"):
            ALL[name].build(make_environment(ACTIONS[kind]), NETWORK)
    with pytest.raises(ValueError, match=r"network.core: .* single steps"):
        ALL[name].build(make_environment(CONTINUOUS), NetworkConfig(core="lstm"))
    (problem,) = dataclasses.replace(ALL[name], replay_fraction=0.5).problems()
    assert "must be 1" in str(problem)


@pytest.mark.parametrize("name", ["asymmetric", "ddpg", "naf"])
def test_images_can_be_seen_beside_vectors(name):
    images = {"image": FramesSpec((84, 84), stack=2), "x": VectorSpec((3,))}
    algorithm = ALL[name].build(EnvironmentSpec("Test-v0", images, CONTINUOUS), NetworkConfig())
    spec = UnrollSpec(1, algorithm.environment, algorithm.behaviour)
    config = LearnerConfig(compile="off")
    step = make_updater(algorithm, algorithm.seeded_networks(0), spec, config, torch.device("cpu"), 0)
    metrics, output = step(example_batch(spec, 4, [column.name for column in algorithm.columns], "steps"), 1e-4, {})
    assert metrics["updates_applied"] == 1.0
    assert output.column_writes["rho"].shape == (1, 4)


@pytest.mark.parametrize("name", ["ddpg", "bounded", "naf"])
def test_the_numbers_of_each_step_stand_in_one_row_as_those_of_unrolls_do(name):
    algorithm, networks, targets = build(ALL[name])
    output, _ = run(algorithm, networks, targets, make_steps(algorithm, networks, num_columns=5, std=0.2))
    shapes = {key: tuple(value.shape) for key, value in (output.per_step | output.column_writes).items()}
    assert shapes == {"td_error": (1, 5), "q": (1, 5), "rho": (1, 5)}
