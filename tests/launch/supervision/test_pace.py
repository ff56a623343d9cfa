import numpy as np
import pytest

from launch.supervision.pace import PaceLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_who_runs_ahead_waits_for_the_slowest(clock):
    pace = PaceLimit(3, 100, 10.0, clock)
    for member, steps in enumerate((250, 150, 120)):
        pace.report(member, steps)
    assert [pace.may_go_on(member) for member in range(3)] == [False, True, True]
    pace.report(2, 160)
    assert pace.may_go_on(0), "100 ahead is not more than 100"


def test_a_member_that_pauses_holds_up_the_others_for_its_lease_only(clock):
    pace = PaceLimit(2, 100, 10.0, clock)
    pace.report(0, 300)
    clock.now = 9.0
    pace.report(1, 0)
    assert pace.expire() == []
    assert not pace.may_go_on(0)
    clock.now = 10.5
    pace.report(0, 300)
    assert pace.expire() == [1]
    assert pace.may_go_on(0)


def test_waiting_for_others_does_not_end_a_lease(clock):
    pace = PaceLimit(2, 100, 10.0, clock)
    for clock.now in np.arange(0.0, 60.0, 1.0):
        pace.report(0, 300)
        pace.report(1, int(clock.now))  # slow, but alive
        assert pace.expire() == []
        assert not pace.may_go_on(0)


def test_a_member_that_comes_back_has_its_lease_once_it_has_caught_up(clock):
    pace = PaceLimit(2, 100, 10.0, clock)
    pace.report(0, 50)
    clock.now = 20.0
    pace.report(0, 1000)
    assert pace.expire() == [1]
    pace.report(1, 10)  # it lives again, far behind: nobody waits
    pace.report(0, 5000)
    assert pace.may_go_on(0)
    assert pace.may_go_on(1)
    pace.report(1, 4950)
    pace.report(0, 5051)
    assert not pace.may_go_on(0), "it holds a lease again"


def test_nobody_waits_for_who_is_far_behind_after_a_resumption(clock):
    pace = PaceLimit(3, 100, 10.0, clock)
    pace.start({0: 3000, 1: 1000, 2: 2950})
    assert [pace.may_go_on(member) for member in range(3)] == [True, True, True]
    for clock.now in range(1, 50):  # it lives, and is slow to catch up
        for member, steps in enumerate((3000, 1000 + clock.now, 2950)):
            pace.report(member, steps + (clock.now if member != 1 else 0))
        assert pace.may_go_on(0)
        pace.expire()
    pace.report(1, 3020)  # there it is
    pace.report(0, 3200)
    assert not pace.may_go_on(0)


def test_who_has_left_counts_no_more(clock):
    pace = PaceLimit(2, 100, 10.0, clock)
    pace.report(0, 500)
    assert not pace.may_go_on(0)
    pace.leave(1)
    pace.report(1, 10)
    assert pace.may_go_on(0)
    pace.leave(0)
    assert pace.may_go_on(0)


@pytest.mark.parametrize("is_limited", [True, False])
def test_progress_stays_within_a_twentieth(clock, is_limited):
    """Members of very different speed; without the limit they part."""
    speeds, steps = np.array([7, 11, 40, 90]), np.zeros(4, int)
    pace = PaceLimit(4, 200, 10.0, clock)
    for clock.now in np.arange(0.0, 2000.0):
        for member in range(4):
            pace.report(member, int(steps[member]))
        steps += speeds * np.array([pace.may_go_on(member) or not is_limited for member in range(4)])
    assert bool(steps.max() <= 1.05 * steps.min()) is is_limited
    assert steps.min() == 7 * 2000, "the slowest is never held back"
