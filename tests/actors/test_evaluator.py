"""An evaluation whose environment failed is the only one that is lost."""

import numpy as np
import pytest
from scripted import CountingAlgorithm, ScriptedEnvironment

from actors.evaluator import Evaluator, InterruptedEvaluationError, episodes_of_each
from actors.policy import Policy
from laser.environments import EnvironmentFailedError
from laser.ports import Parameters

LENGTHS = [[3, 6], [4, 1, 2]]
PARAMETERS = Parameters(0, np.zeros(2, np.float32))


def make_evaluator(environments):
    made = iter(environments)
    return Evaluator(
        lambda: next(made), lambda: Policy(CountingAlgorithm(), environments[0].spec, seed=0), seed=0, member=3
    )


def lengths_of(episodes):
    return sorted(episode.length for episode in episodes)


def test_an_evaluation_has_exactly_as_many_episodes_as_asked_for():
    evaluator = make_evaluator([ScriptedEnvironment(LENGTHS)])
    for _ in range(2):
        episodes = evaluator.evaluate(PARAMETERS, 3)
        assert lengths_of(episodes) == [3, 4, 6]  # also where another environment ended two before
        assert {episode.member for episode in episodes} == {3}


@pytest.mark.parametrize(
    ("num_episodes", "tasks", "expected"),
    [
        (7, [0, 0, 0, 0], [2, 2, 2, 1]),
        (1, [0, 0], [1, 0]),
        (4, [0, 1, 2, 0, 1, 2], [1, 1, 1, 1, 1, 1]),  # two of each task
        (1, [0, 1], [1, 1]),
        (5, [0, 1, 0, 1], [2, 2, 1, 1]),
    ],
)
def test_episodes_are_shared_out_before_the_first_one(num_episodes, tasks, expected):
    assert episodes_of_each(num_episodes, np.array(tasks)).tolist() == expected


@pytest.mark.parametrize("fail_to_close", [False, True])
@pytest.mark.parametrize("fail_after", [0, 2], ids=["reset", "step"])
def test_after_a_failure_the_next_evaluation_has_another_environment(fail_after, fail_to_close):
    bad = ScriptedEnvironment(LENGTHS, fail_after=fail_after, fail_to_close=fail_to_close)
    good = ScriptedEnvironment(LENGTHS)
    evaluator = make_evaluator([bad, good])
    with pytest.raises(EnvironmentFailedError, match="the wheel came off") as caught:
        evaluator.evaluate(PARAMETERS, 4)
    assert bad.closed
    notes = ["it could not be closed either: OSError: the door is stuck"] if fail_to_close else []
    assert getattr(caught.value, "__notes__", []) == notes
    assert lengths_of(evaluator.evaluate(PARAMETERS, 4)) == [1, 3, 4, 6]
    assert not good.closed
    evaluator.close()
    assert good.closed


def test_after_a_failure_there_may_be_nothing_to_close():
    bad = ScriptedEnvironment(LENGTHS, fail_after=0, fail_to_close=True)
    evaluator = make_evaluator([bad])
    with pytest.raises(EnvironmentFailedError):
        evaluator.evaluate(PARAMETERS, 4)
    evaluator.close()  # `bad` would raise


def test_an_evaluation_can_be_asked_to_end():
    evaluator = make_evaluator([ScriptedEnvironment(LENGTHS)])
    with pytest.raises(InterruptedEvaluationError, match="of 1000 episodes to play"):
        evaluator.evaluate(PARAMETERS, 1000, on_step=lambda *step: evaluator.interrupt())
    with pytest.raises(InterruptedEvaluationError):
        evaluator.evaluate(PARAMETERS, 1)
