"""A recurrent agent from actor to learner: the learner's recomputation is what the actor did."""

import itertools
from concurrent.futures import Future

import numpy as np
import pytest
import torch
from scripted import FakeReplay, ScriptedEnvironment

from actors.actor import Actor
from actors.config import ActorConfig
from actors.policy import Policy
from actors.unroll_builder import Identity
from laser.algorithms.impala import ImpalaConfig
from laser.failure_budget import FailureBudget
from laser.networks.config import NetworkConfig
from laser.ports import KEY_DTYPE, Parameters, Sample
from laser.unroll import UnrollSpec
from learner.experience.collate import collate
from learner.experience.mixing import Mix

LENGTHS = [[3, 5], [4, 1, 2], [7]]
T = 4


class FixedParameters:
    """One version for ever."""

    def __init__(self, vector):
        self.vector = vector

    def newest(self, newer_than):
        future = Future()
        future.set_result(Parameters(0, self.vector) if newer_than < 0 else None)
        return future


def collect(core, same_step, num_unrolls=8):
    environment = ScriptedEnvironment(LENGTHS, same_step=same_step)
    algorithm = ImpalaConfig().build(environment.spec, NetworkConfig(core=core, core_size=8))
    policy = Policy(algorithm, environment.spec, seed=0)
    with torch.no_grad():
        policy.networks.policy_head.linear.weight.mul_(100.0)
    vector = policy.parameters.to_numpy()
    spec = UnrollSpec(T, environment.spec, algorithm.behaviour, dict(algorithm.core_state))
    replay = FakeReplay()
    actor = Actor(
        lambda group: environment, 1, policy, spec, replay, FixedParameters(vector), Identity(run=1, actor=0),
        ActorConfig(), seed=0, rebuilds=FailureBudget(0),
    )  # fmt: skip
    for _ in range(num_unrolls):
        actor.run_unroll()
    return algorithm, policy.networks, spec, replay.inserted


def to_batch(unrolls, spec):
    keys = np.zeros(len(unrolls), KEY_DTYPE)
    (batch,) = collate([Mix(Sample(unrolls, keys, np.ones(len(unrolls)), len(unrolls)), None)], spec, 0, 0.9, 0)
    return batch


@pytest.mark.parametrize("core", ["lstm", "preco"])
@pytest.mark.parametrize("same_step", [False, True], ids=["next_step", "same_step"])
def test_with_the_same_parameters_every_ratio_is_one(core, same_step):
    algorithm, networks, spec, inserted = collect(core, same_step)
    num_ends = 0
    for unrolls in inserted:
        batch = to_batch(unrolls, spec)
        pi = {name: value[:-1] for name, value in algorithm.evaluate(networks, batch).policy.items()}
        log_rhos = algorithm.distribution.log_prob(pi, batch.actions) - algorithm.distribution.log_prob(
            batch.mu, batch.actions
        )
        torch.testing.assert_close(log_rhos[batch.valid], torch.zeros(int(batch.valid.sum())), rtol=0, atol=1e-5)
        torch.testing.assert_close(pi["logits"][batch.valid], batch.mu["logits"][batch.valid], rtol=1e-5, atol=1e-5)
        num_ends += int((~batch.valid).sum())
    assert num_ends > 8, "the data never reached an episode's end"


@pytest.mark.parametrize("core", ["lstm", "preco"])
def test_the_loss_hands_out_the_state_with_which_the_next_unroll_begins(core):
    algorithm, networks, spec, inserted = collect(core, same_step=False)
    for before, after in itertools.pairwise(inserted):
        state = algorithm.loss(networks, {}, to_batch(before, spec), {}, None).core_state
        assert set(state) == set(algorithm.core_state)
        for name, value in state.items():
            assert not value.requires_grad
            np.testing.assert_allclose(value.numpy(), after.fields[f"core_state/{name}"], rtol=1e-5, atol=1e-6)


def test_an_actor_that_forgot_its_state_would_be_noticed():
    algorithm, networks, spec, inserted = collect("lstm", same_step=False)
    unrolls = inserted[3]
    for name in algorithm.core_state:
        unrolls.fields[f"core_state/{name}"][:] = 0.0
    batch = to_batch(unrolls, spec)
    pi = {name: value[:-1] for name, value in algorithm.evaluate(networks, batch).policy.items()}
    assert (pi["logits"] - batch.mu["logits"])[batch.valid].abs().max() > 1e-3


def test_actors_of_feed_forward_agents_ship_no_state():
    _, _, spec, inserted = collect("none", same_step=False, num_unrolls=1)
    assert not spec.core_state
    assert not list(inserted[0].group("core_state"))
