"""A compiled policy beside the same one uncompiled."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import torch

from actors.policy import Policy, PolicyState
from laser.algorithms import find_algorithms
from laser.algorithms.dqn import DqnConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.racer import RacerConfig
from laser.algorithms.sac import SacConfig
from laser.graphed_program import GraphedProgram
from laser.networks.config import NetworkConfig
from laser.ports import Parameters
from laser.specs import ContinuousActions, DiscreteActions, EnvironmentSpec, VectorSpec

NUM_ENVS = 5
CONTINUOUS, DISCRETE = ContinuousActions((-1.0, -2.0), (1.0, 2.0)), DiscreteActions(3)
POLICIES = {
    "racer": (RacerConfig(), CONTINUOUS, "none"),
    "sac at random": (SacConfig(), CONTINUOUS, "none"),
    "noisy dqn": (DqnConfig(noisy=True), DISCRETE, "none"),
    "recurrent laser": (LaserConfig(), DISCRETE, "lstm"),
}


def assert_same(one, other, rtol, atol):
    # An algorithm without a value of a state says NaN.
    torch.testing.assert_close(one, other, rtol=rtol, atol=atol, equal_nan=True)


def make(name, seed=0, **options):
    config, actions, core = POLICIES[name]
    environment = EnvironmentSpec("probe", {"x": VectorSpec((4,))}, actions)
    network = dataclasses.replace(NetworkConfig(hidden_sizes=(8,)), core=core)
    policy = Policy(config.build(environment, network), environment, seed, **options)
    vector = np.random.default_rng(1).normal(size=policy.parameters.to_numpy().size).astype(np.float32) * 0.3
    policy.load(Parameters(3, vector))
    return policy, PolicyState(NUM_ENVS, environment, policy.algorithm)


def rollout(policy, state, num_steps=4):
    rng, said = np.random.default_rng(2), []
    for _ in range(num_steps):
        observations = {"x": rng.normal(size=(NUM_ENVS, 4)).astype(np.float32)}
        actions, mu, values = policy.act_with_values(observations, state)
        state.last_action, state.first = actions, rng.random(NUM_ENVS) < 0.3
        said.append((torch.from_numpy(actions), {key: torch.from_numpy(each) for key, each in mu.items()}, values))
    return said


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_the_greedy_one_does_the_same(name):
    plain, compiled = (rollout(*make(name, greedy=True, compiled=each)) for each in (False, True))
    assert_same(plain, compiled, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", POLICIES)
def test_one_that_is_replayed_as_a_graph_does_the_same(name, monkeypatch):
    plain = rollout(*make(name))
    monkeypatch.setattr("actors.policy.CompiledProgram", GraphedProgram)  # on a CPU its recording is stood in for
    monkeypatch.setattr("torch._inductor.compile", lambda graph, inputs, options: graph)
    assert_same(rollout(*make(name, compiled=True)), plain, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", POLICIES)
def test_one_on_a_gpu_does_the_same(name, compiled):
    here, there = (make(name, greedy=True, device=device, compiled=compiled) for device in ("cpu", "cuda"))
    there[0].warm_up({"x": np.zeros((NUM_ENVS, 4), np.float32)}, there[1])
    assert_same(rollout(*there), rollout(*here), rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
def test_policies_on_one_gpu_act_side_by_side():
    policies = [make("recurrent laser", seed, device="cuda", compiled=True) for seed in range(4)]
    alone = []
    for policy, state in policies:
        policy.warm_up({"x": np.zeros((NUM_ENVS, 4), np.float32)}, state)
        policy.restart()
        alone.append(rollout(policy, state, 20))
    for policy, state in policies:
        policy.restart()
        state.load_state_dict(PolicyState(NUM_ENVS, policy.environment, policy.algorithm).state_dict())
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda pair: rollout(*pair, 20), policies))
    assert_same(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_what_is_drawn_hangs_on_its_own_seed_alone():
    name = "noisy dqn"
    policy, state = make(name, compiled=True)
    policy.warm_up({"x": np.zeros((NUM_ENVS, 4), np.float32)}, state)
    torch.manual_seed(1)
    first = rollout(policy, state)
    again, state = make(name, compiled=True)
    torch.manual_seed(2)  # torch's global generator is anybody's
    assert_same(rollout(again, state), first, rtol=0, atol=0)
    other, state = make(name, seed=1, compiled=True)
    assert not all(torch.equal(one[0], two[0]) for one, two in zip(rollout(other, state), first, strict=True))


@pytest.mark.parametrize("name", POLICIES)
def test_a_look_says_what_acting_would_and_leaves_no_trace(name):
    (policy, state), (other, untouched) = make(name), make(name)
    state.first[:] = untouched.first[:] = False  # or what is remembered would not be used
    reference = rollout(other, untouched)
    seen = np.random.default_rng(7).normal(size=(3, NUM_ENVS, 4)).astype(np.float32)
    looked = [policy.look({"x": each}, state) for each in seen]
    assert not all(np.array_equal(looked[0][key], looked[1][key]) for key in looked[0])
    assert_same(rollout(policy, state), reference, rtol=0, atol=0)


@pytest.mark.parametrize("kind", find_algorithms().values(), ids=find_algorithms())
def test_what_is_published_is_all_that_acting_looks_at(kind):
    environments = [EnvironmentSpec("probe", {"x": VectorSpec((4,))}, actions) for actions in (DISCRETE, CONTINUOUS)]
    policies = []
    for seed in (0, 1):
        for environment in environments:
            with suppress(ValueError):  # acts in the other's spaces
                algorithm = kind().build(environment, NetworkConfig(hidden_sizes=(8,)))
                policies.append(Policy(algorithm, environment, seed))
    one, other = policies[0], policies[len(policies) // 2]
    for buffer in one.networks.buffers():
        buffer.fill_(1.0)  # SAC and TD3 have learned
    assert not np.array_equal(one.parameters.to_numpy(), other.parameters.to_numpy())
    other.load(Parameters(1, one.parameters.to_numpy()))
    said = []
    for policy in (one, other):
        policy.generator.manual_seed(5)
        said.append(rollout(policy, PolicyState(NUM_ENVS, policy.environment, policy.algorithm)))
    assert_same(said[0], said[1], rtol=0, atol=0)


@pytest.mark.slow
def test_newer_parameters_are_taken_over():
    policy, state = make("racer", greedy=True, compiled=True)
    observations = {"x": np.ones((NUM_ENVS, 4), np.float32)}
    before, _ = policy.act(observations, state)
    policy.load(Parameters(4, policy.parameters.to_numpy() * 0.5))
    after, _ = policy.act(observations, state)
    assert not np.array_equal(before, after)
