"""The rate limiter: the inequality, and which settings can deadlock."""

import itertools
import math

import numpy as np
import pytest

from replay_server.member_settings import RateLimit
from replay_server.store.rate_limiter import RateLimiter


def test_the_difference_stays_in_the_band_under_random_calls():
    rng = np.random.default_rng(0)
    limit = RateLimit(2.5, min_steps=100, max_insert_steps=30, max_sample_steps=64)
    limiter = RateLimiter(limit)
    for _ in range(3000):
        num_steps = int(rng.integers(1, 31))
        if rng.random() < 0.5:
            if not limiter.insert_lacks(num_steps):
                limiter.inserted_steps += num_steps
        elif not limiter.sample_lacks(2 * num_steps, limiter.inserted_steps):
            limiter.sampled_steps += 2 * num_steps
        assert limiter.difference <= limit.max_difference
        assert limiter.sampled_steps == 0 or limiter.difference >= limit.min_difference
        assert limiter.sampled_steps == 0 or limiter.inserted_steps >= 100
    assert limiter.sampled_steps / limiter.inserted_steps == pytest.approx(2.5, rel=0.05)


def reaches_deadlock(limit, insert_steps, sample_steps):
    """Return whether some order of whole inserts and samples gets stuck; walks every reachable state."""
    todo, seen = [(0, 0)], set()
    while todo:
        state = todo.pop()
        if state in seen or state[0] > 600:
            continue
        seen.add(state)
        limiter = RateLimiter(limit)
        limiter.inserted_steps, limiter.sampled_steps = state
        can_insert = not limiter.insert_lacks(insert_steps)
        can_sample = not limiter.sample_lacks(sample_steps, state[0])
        if not can_insert and not can_sample:
            return True
        if can_insert:
            todo.append((state[0] + insert_steps, state[1]))
        if can_sample:
            todo.append((state[0], state[1] + sample_steps))
    return False


CASES = list(itertools.product([0.3, 1.0, 4.0], [0, 7, 40], [1, 8, 20], [1, 16, 50]))


@pytest.mark.parametrize(("ratio", "min_steps", "insert", "sample"), CASES[::4])
def test_no_accepted_setting_deadlocks(ratio, min_steps, insert, sample):
    widest = RateLimit(ratio, min_steps, insert, sample)
    narrowest = RateLimit(ratio, min_steps, insert, sample, error_buffer=widest.least_buffer)
    assert not reaches_deadlock(widest, insert, sample)
    assert not reaches_deadlock(narrowest, insert, sample)


def test_a_refused_setting_really_deadlocks():
    settings = {"samples_per_insert": 4.0, "min_steps": 40, "max_insert_steps": 20, "max_sample_steps": 50}
    with pytest.raises(ValueError, match=r"error_buffer must be at least 80 steps .* deadlocks, got 40"):
        RateLimit(**settings, error_buffer=40)
    unchecked = RateLimit(**settings)
    object.__setattr__(unchecked, "error_buffer", 40)
    assert reaches_deadlock(unchecked, 20, 50)


@pytest.mark.parametrize("wrong", [{"samples_per_insert": 0.0}, {"samples_per_insert": math.nan}, {"min_steps": -1}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        RateLimit(**wrong)


def test_infinity_only_waits_for_min_steps():
    limiter = RateLimiter(RateLimit(min_steps=10))
    assert limiter.sample_lacks(5, 9) == "9 of 10 steps stored"
    assert limiter.sample_lacks(10**9, 10) is None
    assert limiter.insert_lacks(10**9) is None


def test_an_insert_and_a_sample_may_go_just_as_far_as_the_band():
    # The band is 3 * 20 +- 15: from 45 to 75.
    limiter = RateLimiter(RateLimit(3.0, min_steps=20, max_insert_steps=5, max_sample_steps=10, error_buffer=15.0))
    limiter.inserted_steps = 20
    assert limiter.difference == 60.0
    assert limiter.insert_lacks(5) is None
    assert limiter.insert_lacks(6) == (
        "the rate limiter waits for the learner to draw: 0 steps drawn for 20 inserted, at 3 samples per insert"
    )
    assert limiter.sample_lacks(15, 20) is None
    limiter.sampled_steps = 6
    assert limiter.difference == 54.0
    assert limiter.sample_lacks(9, 20) is None
    assert limiter.sample_lacks(10, 20) == (
        "the rate limiter waits for actors to insert: 6 steps drawn for 20 inserted, at 3 samples per insert"
    )


def test_what_is_forgiven_need_not_be_drawn():
    limiter = RateLimiter(RateLimit(3.0, min_steps=20, max_insert_steps=5, max_sample_steps=10, error_buffer=15.0))
    limiter.inserted_steps, limiter.sampled_steps = 120, 30
    assert limiter.insert_lacks(1) is not None
    limiter.forgiven_steps = 90
    assert limiter.difference == (120 - 90) * 3.0 - 30
    assert limiter.insert_lacks(5) is None
    other = RateLimiter(limiter.limit)
    other.load_state_dict(limiter.state_dict())
    assert other.difference == limiter.difference == 60.0
    assert (other.inserted_steps, other.sampled_steps, other.forgiven_steps) == (120, 30, 90)
    # With the inequality off there is no difference, however much was drawn.
    free = RateLimiter(RateLimit())
    free.load_state_dict(limiter.state_dict())
    assert free.difference == 0.0
