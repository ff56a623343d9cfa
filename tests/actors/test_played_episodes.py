"""The episodes of an evaluation, as a log has them: every number says where it came from."""

import numpy as np
import pytest
from scripted import CountingAlgorithm, ScriptedEnvironment

from actors.evaluator import Evaluator
from actors.played_episodes import PlayedEpisodes
from actors.policy import Policy
from laser.ports import Parameters

LENGTHS = [[3, 6], [4, 1, 2]]
PARAMETERS = Parameters(0, np.zeros(2, np.float32))


def stack_of(episode, step):
    """Return what the three frames of a stack are filled with at a step of an episode: zeros before the first."""
    return [(int(episode) * 16 + at + 1) % 256 if at >= 0 else 0 for at in range(step - 2, step + 1)]


@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize("keeps_mu", [False, True])
def test_whole_episodes_that_count_are_kept(same_step, keeps_mu):
    environment = ScriptedEnvironment(LENGTHS, same_step=same_step, frames=True)
    log = PlayedEpisodes(environment.spec, keeps_mu=keeps_mu)
    evaluator = Evaluator(lambda: environment, lambda: Policy(CountingAlgorithm(), environment.spec, seed=0), seed=0)
    results = evaluator.evaluate(PARAMETERS, 5, log=log)
    episodes = list(log.episodes())
    places = [tuple(episode.observations["place"][0].astype(int)) for episode in episodes]
    assert sorted(places) == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0), (1, 1, 0)]
    assert [(len(episode), episode.rewards.sum()) for episode in episodes] == [
        (result.length, result.episode_return) for result in results
    ]
    assert log.num_steps == sum(map(len, episodes)) == 3 + 6 + 3 + 4 + 1
    for episode in episodes:
        who, number, _ = episode.observations["place"][0].astype(int)
        length = LENGTHS[who][number % len(LENGTHS[who])]
        assert len(episode) == length
        assert episode.terminated == (number % 2 == 0)
        np.testing.assert_array_equal(episode.observations["place"][:, 2], np.arange(length + 1))
        np.testing.assert_array_equal(episode.observations["place"][:, :2], [[who, number]] * (length + 1))
        image = episode.observations["image"]
        assert image.shape == (length + 1, 3, 4, 4)
        assert image.dtype == np.uint8
        assert image[:, :, 0, 0].tolist() == [stack_of(number, step) for step in range(length + 1)]
        np.testing.assert_array_equal(episode.rewards, np.arange(1, length + 1) + 100 * episode.actions)
        assert episode.rewards.dtype == np.float32
        assert bool(episode.mu) == keeps_mu
        for value in episode.mu.values():
            assert len(value) == length


def test_statistics_are_those_of_the_step(monkeypatch):
    environment = ScriptedEnvironment([[3, 2]])
    policy = Policy(CountingAlgorithm(), environment.spec, seed=0)
    said, act = [], policy.act

    def watched(observations, state):
        actions, mu = act(observations, state)
        said.append((observations["place"][0].tolist(), {name: value[0].tolist() for name, value in mu.items()}))
        return actions, mu

    monkeypatch.setattr(policy, "act", watched)
    log = PlayedEpisodes(environment.spec, keeps_mu=True)
    Evaluator(lambda: environment, lambda: policy, seed=0).evaluate(PARAMETERS, 2, log=log)
    known = {tuple(place): mu for place, mu in said}
    for episode in log.episodes():
        for step in range(len(episode)):
            expected = known[tuple(episode.observations["place"][step].tolist())]
            assert {name: value[step].tolist() for name, value in episode.mu.items()} == expected
