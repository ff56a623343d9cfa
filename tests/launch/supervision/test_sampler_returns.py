"""What a learned sampler hears: marks, evaluations and training episodes, and nothing of an agent that was replaced."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from laser.ports import EpisodeResult, Report
from launch.supervision.sampler_returns import SamplerReturns


class Learner:
    """Takes calls down."""

    def __init__(self):
        self.calls = []

    def call(self, method, *arguments):
        self.calls.append((method.__name__, *arguments))
        done = Future()
        done.set_result(None)
        return done


class Recorder:
    """Knows returns of 0, 1, 2, ..., one per episode."""

    def __init__(self):
        self.marks, self.env_steps, self.episodes = {}, 0, 0

    def snapshot(self):
        return SimpleNamespace(env_steps=self.env_steps, episodes=self.episodes)

    def newest_returns(self, number):
        return [float(episode) for episode in range(self.episodes - number, self.episodes)]


@pytest.fixture
def member(request):
    learner, recorder = Learner(), Recorder()
    config = SimpleNamespace(
        replay=SimpleNamespace(learned=SimpleNamespace(reward=request.param)),
        algorithm=SimpleNamespace(num_drawn=4),
        evaluation=SimpleNamespace(interval=100),
        num_actors=1,
        num_envs=2,
    )
    return SamplerReturns(SimpleNamespace(learner=learner, config=config), recorder), learner, recorder


def evaluation(at, value):
    return Report("evaluator", {}, episodes=(EpisodeResult(value, 1, 0, 0),), at_env_steps=at)


@pytest.mark.parametrize("member", ["evaluation"], indirect=True)
def test_an_evaluation_is_marked_and_told_of_but_not_that_of_an_agent_that_was_replaced(member):
    returns, learner, recorder = member
    returns.evaluating()
    returns.evaluated(evaluation(100, 3.0))
    assert learner.calls == [("mark_evaluation",), ("hear_return", 3.0)]
    returns.evaluating()
    recorder.env_steps = 200
    returns.copied(recorder.snapshot())
    returns.evaluated(evaluation(200, 50.0))
    assert learner.calls[2:] == [("mark_evaluation",)]
    returns.evaluated(evaluation(300, 4.0))
    assert learner.calls[3:] == [("hear_return", 4.0)]


@pytest.mark.parametrize("member", ["training"], indirect=True)
def test_of_training_episodes_those_begun_before_a_copy_are_not_told(member):
    returns, learner, recorder = member
    returns.evaluating()
    returns.evaluated(evaluation(50, 3.0))
    recorder.env_steps, recorder.episodes = 150, 6
    returns.copied(recorder.snapshot())
    for recorder.env_steps, recorder.episodes in ((200, 7), (300, 8), (400, 10)):
        returns.look(recorder.snapshot())
    assert learner.calls == [("hear_return", 8.5)]
