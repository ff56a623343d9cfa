"""A cloned behaviour has the probabilities that the actions were drawn with."""

import math

import numpy as np
import pytest

from laser.logs.cloning import clone_behaviour
from laser.logs.episodes import LoggedEpisode
from laser.specs import ACTION_MASK, ContinuousActions, DiscreteActions, EnvironmentSpec, MaskSpec, VectorSpec

STATES = np.eye(3, dtype=np.float32)


class Listed:
    def __init__(self, environment, episodes):
        self.environment, self.episodes = environment, episodes

    def __len__(self):
        return len(self.episodes)

    def episode(self, number):
        return self.episodes[number]


def log_of(environment, act, num_episodes, length=50, masks=None):
    """Return a log whose states are drawn at random from three."""
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(num_episodes):
        states = rng.integers(3, size=length + 1)
        observations = {"observation": STATES[states]}
        if masks is not None:
            observations[ACTION_MASK] = masks[states]
        actions = np.array([act(state, rng) for state in states[:-1]], environment.actions.array.dtype)
        episodes.append(LoggedEpisode(observations, actions, np.zeros(length, np.float32), terminated=True))
    return Listed(environment, episodes)


def statistics(log, num_updates=600, masks=None):
    """Return the cloned statistics of the three states."""
    behaviour = clone_behaviour(log, log.environment, seed=1, num_updates=num_updates)
    observations = {"observation": np.concatenate([STATES, STATES[:1]])}
    if masks is not None:
        observations[ACTION_MASK] = np.concatenate([masks, masks[:1]])
    return behaviour.statistics(LoggedEpisode(observations, np.zeros(3), np.zeros(3), terminated=True))


def test_probabilities_of_choices_are_recovered():
    probabilities = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [1 / 3, 1 / 3, 1 / 3]])
    environment = EnvironmentSpec("probe", {"observation": VectorSpec((3,))}, DiscreteActions(3))
    log = log_of(environment, lambda state, rng: rng.choice(3, p=probabilities[state]), 200)
    logits = statistics(log)["logits"]
    assert logits.shape == (3, 3)
    fitted = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(fitted, probabilities, atol=0.05)


def test_mean_and_deviation_of_reals_are_recovered():
    means, deviations = np.array([-0.5, 0.0, 0.8]), np.array([0.1, 0.4, 0.2])
    environment = EnvironmentSpec("probe", {"observation": VectorSpec((3,))}, ContinuousActions((-1.0,), (1.0,)))
    log = log_of(environment, lambda state, rng: [rng.normal(means[state], deviations[state])], 200)
    fitted = statistics(log, num_updates=2000)
    np.testing.assert_allclose(fitted["mean"][:, 0], means, atol=0.06)
    assert fitted["std"].shape == (3, 1)
    assert (fitted["std"] > 0).all()


def test_masked_actions_are_excluded():
    masks = np.array([[True, True, False], [True, True, True], [False, True, True]])
    observations = {"observation": VectorSpec((3,)), ACTION_MASK: MaskSpec((3,))}
    environment = EnvironmentSpec("probe", observations, DiscreteActions(3))
    log = log_of(environment, lambda state, rng: rng.choice(np.flatnonzero(masks[state])), 60, masks=masks)
    logits = statistics(log, masks=masks)["logits"]
    assert (logits[~masks] < -1e8).all()
    assert (logits[masks] > -50).all()


def test_what_is_held_out_stops_a_fit_that_only_remembers():
    """Two episodes without any regularity: the best policy on the second one is near uniform."""
    environment = EnvironmentSpec("probe", {"observation": VectorSpec((4,))}, DiscreteActions(2))
    rng = np.random.default_rng(0)
    episodes = [
        LoggedEpisode(
            {"observation": rng.normal(size=(41, 4)).astype(np.float32)},
            rng.integers(2, size=40),
            np.zeros(40, np.float32),
            terminated=True,
        )
        for _ in range(2)
    ]
    log = Listed(environment, episodes)
    logits = clone_behaviour(log, environment, seed=0, num_updates=1200).statistics(episodes[1])["logits"]
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    likelihood = log_probs[np.arange(40), episodes[1].actions].mean()
    assert likelihood > 1.6 * math.log(0.5)


@pytest.mark.parametrize("num_episodes", [1, 2, 9])
def test_few_episodes_are_enough(num_episodes):
    environment = EnvironmentSpec("probe", {"observation": VectorSpec((3,))}, DiscreteActions(3))
    logits = statistics(log_of(environment, lambda state, rng: state, num_episodes), num_updates=200)["logits"]
    assert logits.argmax(1).tolist() == [0, 1, 2]
