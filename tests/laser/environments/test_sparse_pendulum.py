"""The sparse pendulum against its rule, read off the observations."""

import importlib
import warnings

import numpy as np
import pytest

from laser.environments import EnvironmentConfig, make_environment


def rollout(control, num_envs=8, seed=3):
    """Return observations after each step [200, N, 3] and rewards [200, N] of one episode."""
    environment = make_environment("SparsePendulum-v0", num_envs, EnvironmentConfig())
    seen, rewards = environment.reset(seed)["observation"], []
    observations = []
    for step in range(200):
        environment.send(control(seen).astype(np.float32))
        (part,) = environment.recv()
        seen = part.observations["observation"]
        observations.append(seen)
        rewards.append(part.rewards)
        assert part.truncated.all() == (step == 199)
        assert not part.terminated.any()
    environment.close()
    return np.stack(observations), np.stack(rewards)


def swing_up(seen):
    """Pump energy while the rod is low, hold it while it is high; now and then let go. In [-1, 1]."""
    angle, speed = np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2]
    hold = -6.0 * angle - 1.5 * speed
    return np.where(np.abs(angle) < 0.9, hold, np.sign(speed)).clip(-1.0, 1.0)[:, None]


def test_rewards_follow_the_rule():
    observations, rewards = rollout(swing_up)
    angles = np.arctan2(observations[..., 1], observations[..., 0])
    for environment in range(rewards.shape[1]):
        in_a_row, expected = 0, []
        for angle in angles[:, environment]:
            in_a_row = in_a_row + 1 if -np.pi / 3 <= angle <= np.pi / 3 else 0
            expected.append(1.0 if in_a_row >= 20 else 0.0)
        assert rewards[:, environment].tolist() == expected
    assert rewards.sum(0).max() > 50
    assert (rewards.sum(0) <= 181).all()
    left_and_came_back = (np.diff(np.abs(angles) < np.pi / 3, axis=0).sum(0) > 1).any()
    assert left_and_came_back, "the rollout must tell steps in a row from steps altogether"


def test_hanging_is_worth_nothing():
    assert rollout(lambda seen: np.zeros((len(seen), 1)))[1].mean() < 0.1


@pytest.mark.parametrize(
    ("id", "num_inputs", "num_dimensions"), [("LunarLanderContinuous-v3", 8, 2), ("BipedalWalker-v3", 24, 4)]
)
def test_the_other_environments_of_the_paper_run(id, num_inputs, num_dimensions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Box2D's import crashes where its warnings are errors
        importlib.import_module("Box2D")
    environment = make_environment(id, 2, EnvironmentConfig())
    assert environment.reset(0)["observation"].shape == (2, num_inputs)
    environment.send(np.zeros((2, num_dimensions), np.float32))
    assert np.isfinite(environment.recv()[0].rewards).all()
    environment.close()
