import importlib
import pathlib
import sys

import numpy as np
import pytest

import laser
from laser.environments import EnvironmentConfig, make_environment
from laser.specs import ContinuousActions, VectorSpec

EXAMPLES = pathlib.Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    made = make_environment("own_environment:Push-v0", 2, EnvironmentConfig())
    yield made
    made.close()


def test_the_example_plays_whole_episodes(environment):
    assert environment.spec.observations == {"ball": VectorSpec((2,)), "goal": VectorSpec((1,))}
    assert environment.spec.actions == ContinuousActions((-2.0,), (2.0,))
    generator = np.random.default_rng(0)
    environment.reset(0)
    num_truncated = num_terminated = 0
    for _ in range(220):
        environment.send(generator.normal(size=(2, 1)).astype(np.float32))
        (part,) = environment.recv()
        num_truncated += int(part.truncated.sum())
        num_terminated += int(part.terminated.sum())
    assert num_truncated + num_terminated >= 4


def test_the_example_can_be_restored(environment):
    environment.reset(0)
    actions = np.full((2, 1), 0.5, np.float32)
    for _ in range(3):
        environment.send(actions)
        environment.recv()
    state = environment.state_dict()
    environment.send(actions)
    (wanted,) = environment.recv()
    environment.reset(9)
    environment.load_state_dict(state)
    environment.send(actions)
    (part,) = environment.recv()
    np.testing.assert_array_equal(part.observations["ball"], wanted.observations["ball"])


def test_the_example_passes_gymnasiums_own_checker(environment):
    module = importlib.import_module("own_environment")
    assert pathlib.Path(sys.modules["own_environment"].__file__).parent == EXAMPLES
    observation, _ = module.Push().reset(seed=0)
    assert module.Push.observation_space.contains(observation)


def test_the_example_can_be_trained_in_and_played(examples, quick):
    result = laser.train(laser.load_preset("cartpole", {**quick, "env": "own_environment:Push-v0"}))
    assert result.learner_steps > 3
    played = laser.evaluate(result.run_dir, episodes=1, num_envs=1, quiet=True)
    assert played.lengths[0] <= 100
    policy = laser.load_policy(result.run_dir)
    observation, _ = importlib.import_module("own_environment").Push().reset(seed=0)
    action = policy.act(observation)
    assert action.shape == (1,)
    assert -2.0 <= action[0] <= 2.0
