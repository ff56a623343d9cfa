"""Budgets of failures: what counts, for how long, and that each part has its own."""

from __future__ import annotations

import pytest

from laser.failure_budget import FailureBudget


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_part_that_fails_at_once_uses_its_budget_up():
    budget = FailureBudget(3, window_steps=1000, window_s=60.0)
    assert [budget.spend("learner", 10) for _ in range(5)] == [True, True, True, False, False]


def test_each_part_has_a_budget_of_its_own():
    budget = FailureBudget(1)
    assert budget.spend("actor/0", 0)
    assert budget.spend("actor/1", 0)
    assert not budget.spend("actor/0", 0)


@pytest.mark.parametrize(("steps_between", "seconds_between"), [(501, 1.0), (1, 31.0)])
def test_failures_far_apart_never_use_it_up(steps_between, seconds_between):
    clock = Clock()
    budget = FailureBudget(2, window_steps=1000, window_s=60.0, clock=clock)
    for number in range(10):
        clock.now = number * seconds_between
        assert budget.spend("learner", number * steps_between), number


def test_the_shorter_window_counts():
    clock = Clock()
    budget = FailureBudget(1, window_steps=1000, window_s=60.0, clock=clock)
    assert budget.spend("learner", 0)
    clock.now = 59.0
    assert not budget.spend("learner", 999)
    assert budget.spend("learner", 1000)  # the steps are over, the time is not
    clock.now = 119.0
    assert budget.spend("learner", 1001)  # the time is over, the steps are not


def test_a_failure_that_was_refused_does_not_prolong_the_wait():
    clock = Clock()
    budget = FailureBudget(1, window_s=60.0, clock=clock)
    assert budget.spend("learner", 0)
    clock.now = 50.0
    assert not budget.spend("learner", 0)
    clock.now = 60.0
    assert budget.spend("learner", 0)


def test_a_budget_of_none_outlasts_nothing():
    assert not FailureBudget(0).spend("learner", 0)
