"""Faults of `laser bench chaos`: what they leave the run time for, and what they leave behind."""

from __future__ import annotations

import numpy as np
import pytest

from launch.bench.chaos_run.faults import Faults
from launch.bench.chaos_run.plan import CUT_CABLE


class Saving:
    """A run whose checkpoints come only when somebody waits for one, or from `save`."""

    def __init__(self):
        self.num_saved, self.waited_after = 1, []

    def save(self):
        self.num_saved += 1

    def newest_checkpoint(self):
        return str(self.num_saved)

    def wait_for_checkpoint(self, known):
        self.waited_after.append(known)
        self.save()

    def find(self, part):
        return []


def test_the_main_process_is_killed_three_times_at_most_before_the_run_has_saved_again():
    run = Saving()
    faults = Faults(run, np.random.default_rng(0), None, None)
    for _ in range(3):
        faults.make("driver")
    assert run.waited_after == []
    faults.make("driver")
    assert run.waited_after == ["1"]
    run.save()  # after the first of three further kills
    for part in ("driver", "learner", "driver", "learner", "driver", "learner"):
        faults.make(part)
    assert run.waited_after == ["1"]
    faults.make("driver")
    assert run.waited_after == ["1", "3"]


class Joined:
    """Two nodes, and a run on them that waits: what happens to the cable, and for how long."""

    def __init__(self, has_ended=False, error=None):
        self.second, self.has_ended, self.error = self, has_ended, error
        self.happened, self.waited_s = [], []

    def restore(self):
        self.happened.append("restored")

    def pull_cable(self):
        self.happened.append("pulled")

    def plug_cable(self):
        self.happened.append("plugged")

    def wait(self, seconds):
        self.waited_s.append(seconds)
        if self.error:
            raise self.error


def test_the_cable_is_pulled_for_2_to_20_seconds_and_plugged_in_again():
    joined = Joined()
    faults = Faults(joined, np.random.default_rng(0), None, joined)
    num = 400
    for _ in range(num):
        faults.make(CUT_CABLE)
    assert joined.happened == ["restored", "pulled", "plugged"] * num, "a node that was given up comes back before"
    assert faults.others == {CUT_CABLE: num}
    assert 2.0 <= min(joined.waited_s) < 2.5
    assert 19.5 < max(joined.waited_s) <= 20.0
    # The mean of a uniform draw, within five standard errors.
    assert np.mean(joined.waited_s) == pytest.approx(11.0, abs=5 * 18.0 / np.sqrt(12 * num))


def test_the_cable_is_plugged_in_where_the_run_fails_meanwhile():
    joined = Joined(error=ValueError("the run ended"))
    faults = Faults(joined, np.random.default_rng(0), None, joined)
    with pytest.raises(ValueError, match="the run ended"):
        faults.make(CUT_CABLE)
    assert joined.happened == ["restored", "pulled", "plugged"]


def test_the_cable_of_a_run_that_has_ended_stays():
    joined = Joined(has_ended=True)
    faults = Faults(joined, np.random.default_rng(0), None, joined)
    faults.make(CUT_CABLE)
    assert "pulled" not in joined.happened
    assert not faults.others
